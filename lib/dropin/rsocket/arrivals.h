// Connections of a listening stream on their way to raccept().
#pragma once

#include <cstddef>
#include <deque>
#include <list>
#include <memory>

namespace uroce::dropin::rsocket {

class Stream;

/// The listener has a lock for it. fd() is for any thread.
class Arrivals {
 public:
  using Connection = std::shared_ptr<Stream>;

  /// Once. 0, or -1 with errno.
  int open();
  void reset();
  /// An eventfd that counts the established ones.
  int fd() const { return fd_; }

  bool full() const;
  /// Adds one that is not established yet.
  void add(Connection connection);
  /// It is established: take() may return it. False when it is not here.
  bool establish(const Stream* connection);
  /// Removes one that is not established. Null when it is not here.
  Connection remove(const Stream* connection);
  /// None is established.
  bool none() const { return established_.empty(); }
  /// The first that was established.
  Connection take();
  /// Takes all, also those that are not established.
  std::deque<Connection> take_all();

 private:
  std::deque<Connection> established_;
  std::list<Connection> accepting_;
  int fd_ = -1;
};

}  // namespace uroce::dropin::rsocket
