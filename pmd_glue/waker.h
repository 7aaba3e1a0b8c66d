// Lets a thread sleep until others wake it: a pipe, and a flag that keeps waking cheap.
#pragma once

#include <uroce/error.h>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <vector>

#include "base/time.h"
#include "message/belongings.h"

namespace uroce::glue {

/// Of an engine whose frames end its nap, so that nothing is late. Watchdogs see by it whether an engine turns.
constexpr Nanos kLongestNap = std::chrono::milliseconds(400);

class Waker {
 public:
  Waker();
  ~Waker();
  Waker(const Waker&) = delete;
  Waker& operator=(const Waker&) = delete;

  /// Any thread. One fence and one load when the sleeper is awake.
  void wake() {
    // The caller made work, and then looks at the flag. The sleeper sets the flag, and then looks for work. With the
    // fence, one of the two sees the other's store.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (sleeping_.load(std::memory_order_seq_cst)) wake_always();
  }
  /// Any thread, one system call. Ends the next sleep even if it has not begun.
  void wake_always();
  /// Any thread. Ends a sleep; one that has not begun is not to begin (roused()). No system call while the sleeper is
  /// awake.
  void rouse() {
    roused_.store(true, std::memory_order_seq_cst);
    wake();
  }

  /// A new descriptor for another process, owned by the caller. Writing a byte to it does the same as wake_always().
  /// Errors: EMFILE and the like.
  Result<int> new_descriptor() const;

  // --- A planned restart: other processes write to the pipe of the daemon before ----------------------------------

  /// Lends both ends of the pipe, for the engine with this index.
  void lend(message::Belongings& belongings, std::size_t engine) const;
  /// Takes both ends that were lent, for awaken(). Until then this waker has its own.
  void inherit(message::Belongings& belongings, std::size_t engine);
  /// Sleeps end by the inherited pipe from now on. No effect without one.
  void awaken();

  // --- The sleeping thread --------------------------------------------------------------------------------------

  /// Announces the sleep. Look for work once more afterwards: work that is made later wakes.
  void prepare() { sleeping_.store(true, std::memory_order_seq_cst); }
  void cancel() { sleeping_.store(false, std::memory_order_relaxed); }
  /// After prepare(): whether rouse() was called since the last sleep or call of this.
  bool roused() { return roused_.exchange(false, std::memory_order_seq_cst); }
  /// Sleeps after prepare() until woken, a watched descriptor is readable, or `limit` has passed. False: it has passed.
  bool sleep(Nanos limit);
  /// Adds a descriptor that ends a sleep when it is readable, e.g. a driver's RX interrupt; not owned. Events are taken
  /// from an eventfd and from a UIO device, which stay readable otherwise. At most 64.
  bool watch(int fd);

 private:
  void take_events(int fd) const;

  std::atomic<bool> sleeping_{false};
  std::atomic<bool> roused_{false};
  // A pipe, not an eventfd: the two ends of a pipe have separate flags, so no other process can make this one block.
  int read_end_ = -1;
  int write_end_ = -1;
  int epoll_ = -1;
  message::Fd inherited_read_end_;
  message::Fd inherited_write_end_;
  /// Descriptors whose events sleep() takes, and the bytes of one.
  struct Counted {
    int fd;
    std::size_t bytes;
  };
  std::vector<Counted> counted_;
};

}  // namespace uroce::glue
