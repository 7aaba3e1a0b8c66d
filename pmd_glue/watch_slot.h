// Where other threads put who watches or changes a port queue's frames. The queue takes it up between two bursts.
#pragma once

#include <atomic>
#include <cstdint>

#include "pmd_glue/frame_tap.h"

namespace uroce::glue {

class PortFaults;

struct Watch {
  FrameTap* tap = nullptr;       ///< of a capture
  PortFaults* faults = nullptr;  ///< of fault rules
};

class WatchSlot {
 public:
  // --- Any thread -----------------------------------------------------------------------------------------------

  /// False when another tap is set.
  bool begin(FrameTap& tap) {
    FrameTap* none = nullptr;
    if (!wanted_tap_.compare_exchange_strong(none, &tap)) return false;
    ask();
    return true;
  }
  bool tapped() const { return wanted_tap_.load(std::memory_order_relaxed) != nullptr; }
  /// The tap stays in use until tap_in_use() changes.
  void end_tap() {
    wanted_tap_.store(nullptr);
    ask();
  }
  const FrameTap* tap_in_use() const { return tap_in_use_.load(std::memory_order_acquire); }
  /// nullptr for none. Those before stay in use until faults_in_use() changes. One thread at a time.
  void set_faults(PortFaults* faults) {
    wanted_faults_.store(faults);
    ask();
  }
  const PortFaults* faults_in_use() const { return faults_in_use_.load(std::memory_order_acquire); }

  // --- The queue's thread ---------------------------------------------------------------------------------------

  /// For frames of now on; nullptr where nobody watches.
  const Watch* watch() const { return watch_; }
  bool is_out_of_date() const { return asked_.load(std::memory_order_relaxed) != taken_; }
  /// Takes up what is wanted, and returns what was there. Others may hold that until release().
  Watch take() {
    const Watch before = current_;
    taken_ = asked_.load(std::memory_order_acquire);
    current_ = {wanted_tap_.load(std::memory_order_acquire), wanted_faults_.load(std::memory_order_acquire)};
    watch_ = current_.tap != nullptr || current_.faults != nullptr ? &current_ : nullptr;
    return before;
  }
  /// Nobody uses what was there before the last take().
  void release() {
    tap_in_use_.store(current_.tap, std::memory_order_release);
    faults_in_use_.store(current_.faults, std::memory_order_release);
  }

 private:
  void ask() { asked_.fetch_add(1, std::memory_order_release); }

  const Watch* watch_ = nullptr;
  uint32_t taken_ = 0;
  std::atomic<uint32_t> asked_{0};
  Watch current_;
  std::atomic<FrameTap*> wanted_tap_{nullptr};
  std::atomic<PortFaults*> wanted_faults_{nullptr};
  std::atomic<FrameTap*> tap_in_use_{nullptr};       ///< that of current_, readable by other threads
  std::atomic<PortFaults*> faults_in_use_{nullptr};  ///< likewise
};

}  // namespace uroce::glue
