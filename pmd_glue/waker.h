// How a thread sleeps so that others can wake it: an eventfd, and a flag that keeps waking cheap.
#pragma once

#include <atomic>
#include <chrono>
#include <vector>

#include "base/time.h"

namespace uroce::glue {

class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  /// Any thread. One atomic load when the sleeper is awake.
  void wake() {
    if (sleeping_.load(std::memory_order_seq_cst)) wake_always();
  }
  /// Any thread, a system call: for what must end the next sleep even if it has not begun.
  void wake_always();

  // --- The sleeping thread --------------------------------------------------------------------------------------

  /// Announces the sleep. Look for work once more after it: whoever makes work later wakes.
  void prepare() { sleeping_.store(true, std::memory_order_seq_cst); }
  void cancel() { sleeping_.store(false, std::memory_order_relaxed); }
  /// Sleeps after prepare() until woken, a watched descriptor is readable, or `limit` has passed.
  void sleep(Nanos limit);
  /// A descriptor whose readability ends sleeps, e.g. of a driver's RX interrupt. Not owned, not read.
  bool watch(int fd);

 private:
  std::atomic<bool> sleeping_{false};
  int event_ = -1;
  int epoll_ = -1;
};

}  // namespace uroce::glue
