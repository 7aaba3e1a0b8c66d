// Where other threads put a frame tap for a port queue, which takes it up between two bursts.
#pragma once

#include <atomic>

#include "pmd_glue/frame_tap.h"

namespace uroce::glue {

class TapSlot {
 public:
  // --- Any thread -----------------------------------------------------------------------------------------------

  /// False when another tap is set.
  bool begin(FrameTap& tap) {
    FrameTap* none = nullptr;
    return wanted_.compare_exchange_strong(none, &tap);
  }
  bool taken() const { return wanted_.load(std::memory_order_relaxed) != nullptr; }
  /// The tap stays in use until in_use() changes.
  void end() { wanted_.store(nullptr); }
  const FrameTap* in_use() const { return in_use_.load(std::memory_order_acquire); }

  // --- The queue's thread ---------------------------------------------------------------------------------------

  /// The tap for frames of now on; nullptr for none.
  FrameTap* tap() const { return tap_; }
  bool is_out_of_date() const { return wanted_.load(std::memory_order_relaxed) != tap_; }
  /// Takes up the tap that is wanted. Others may hold the old one until release().
  FrameTap* take() {
    tap_ = wanted_.load(std::memory_order_acquire);
    return tap_;
  }
  /// Nobody uses the tap before the last take().
  void release() { in_use_.store(tap_, std::memory_order_release); }

 private:
  FrameTap* tap_ = nullptr;
  std::atomic<FrameTap*> wanted_{nullptr};
  std::atomic<FrameTap*> in_use_{nullptr};  ///< tap_, readable by other threads
};

}  // namespace uroce::glue
