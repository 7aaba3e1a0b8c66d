// Threads that sleep in rpoll(). They are woken when another thread changes an rsocket.
#pragma once

#include <mutex>
#include <vector>

namespace uroce::dropin::rsocket {

/// The descriptor that wakes one thread.
class Waiter {
 public:
  /// The calling thread's, created at the first call. `fd()` is -1 when the process has no descriptors left.
  static Waiter& mine();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  int fd() const { return fd_; }
  void wake() const;
  /// Makes the descriptor unreadable again.
  void clear() const;

 private:
  Waiter();
  int fd_;
};

/// The threads that wait for one rsocket. Any thread.
class Waiters {
 public:
  void add(Waiter& waiter);
  void remove(Waiter& waiter);
  /// Wakes all except the calling thread.
  void wake();

 private:
  std::mutex mutex_;
  std::vector<Waiter*> waiters_;
};

}  // namespace uroce::dropin::rsocket
