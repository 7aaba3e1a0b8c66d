// The queue pair that an engine is changing, and the events that wait until it has changed.
//
// The engine's thread may die at any instruction (Engine::outlive_thread). Another thread then knows which state may be
// half a step's. A system call takes longer than most steps, so none is made within one.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/core/seam.h"

namespace uroce::transport {

struct Qp;

/// Whether an engine marks its steps (Engine::mark_steps). One that nobody outlives does not store the marks.
enum class Steps : uint8_t { unmarked, marked };

class Hand {
 public:
  /// From here to the next call this queue pair changes.
  template <Steps kSteps>
  void take(const Qp& qp) {
    if constexpr (kSteps == Steps::marked) hold(&qp);
  }
  /// None changes.
  template <Steps kSteps>
  void drop() {
    if constexpr (kSteps == Steps::marked) hold(nullptr);
  }
  // Where one store more or less does not show.
  void take(const Qp& qp) { hold(&qp); }
  void drop() { hold(nullptr); }
  const Qp* held() const { return held_.load(std::memory_order_relaxed); }

 private:
  // The compiler moves no change of a queue pair across; the processor's stores are seen in their order or, once the
  // thread is dead, all of them.
  [[gnu::always_inline]] void hold(const Qp* qp) {
    std::atomic_signal_fence(std::memory_order_release);
    held_.store(qp, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_release);
  }

  std::atomic<const Qp*> held_{nullptr};
};

/// Completion events until the step that causes them is over. Others pass.
class StepEvents final : public EngineEvents {
 public:
  explicit StepEvents(EngineEvents& to) : to_(to) {}

  void on_completion_event(uint32_t cq_id) override {
    if (used_ == cqs_.size()) raise();
    cqs_[used_++] = cq_id;
  }
  void on_async_event(AsyncEventType type, uint32_t object) override { to_.on_async_event(type, object); }
  void on_wrong_key(const Gid& peer, uint32_t qpn) override { to_.on_wrong_key(peer, qpn); }
  void on_end(const QpEnd& end) override { to_.on_end(end); }

  void raise_due() {
    if (used_ != 0) [[unlikely]]
      raise();
  }

 private:
  // After a death within, an event is raised twice rather than never. Inlined, it would take registers of every poll.
  [[gnu::noinline]] void raise() {
    for (std::size_t i = 0; i < used_; ++i) to_.on_completion_event(cqs_[i]);
    used_ = 0;
  }

  EngineEvents& to_;
  std::array<uint32_t, 32> cqs_{};
  std::size_t used_ = 0;
};

}  // namespace uroce::transport
