// A counting eventfd: readable while an event waits, one read per event.
#pragma once

#include <cstdint>

#include <uroce/error.h>

namespace uroce::control {

class EventFd {
 public:
  /// Errors: EMFILE and others of eventfd(2), with the limit to raise.
  static Result<EventFd> create();
  ~EventFd();
  EventFd(EventFd&& other) noexcept : fd_(other.fd_) { other.fd_ = -1; }
  EventFd& operator=(EventFd&&) = delete;

  int fd() const { return fd_; }
  /// Adds one event. Any thread; never blocks.
  void signal();
  /// Takes one event; false when there is none. Any thread; never blocks.
  bool take();

 private:
  explicit EventFd(int fd) : fd_(fd) {}
  int fd_;
};

}  // namespace uroce::control
