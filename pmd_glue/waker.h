// How a thread sleeps so that others can wake it: a pipe, and a flag that keeps waking cheap.
#pragma once

#include <uroce/error.h>
#include <atomic>
#include <chrono>

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

  /// A new descriptor, the caller's, for another process: a byte written to it does what wake_always() does. Errors:
  /// EMFILE and the like.
  Result<int> new_descriptor() const;

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
  // A pipe and no eventfd: its two ends have flags of their own, so that no other process can make this one block.
  int read_end_ = -1;
  int write_end_ = -1;
  int epoll_ = -1;
};

}  // namespace uroce::glue
