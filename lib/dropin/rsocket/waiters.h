// Threads that sleep in rpoll(), woken when an rsocket changes by another thread's hand.
#pragma once

#include <mutex>
#include <vector>

namespace uroce::dropin::rsocket {

/// A thread's own descriptor to be woken by.
class Waiter {
 public:
  /// The calling thread's; made at first. `fd()` is -1 when there are no descriptors left.
  static Waiter& mine();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  ~Waiter();

  int fd() const { return fd_; }
  void wake() const;
  /// Forgets what woke it.
  void clear() const;

 private:
  Waiter();
  int fd_;
};

/// Those who wait for one rsocket. Any thread.
class Waiters {
 public:
  void add(Waiter& waiter);
  void remove(Waiter& waiter);
  /// Wakes all but the caller.
  void wake();

 private:
  std::mutex mutex_;
  std::vector<Waiter*> waiters_;
};

}  // namespace uroce::dropin::rsocket
