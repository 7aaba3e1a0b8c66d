#include "dropin/rsocket/waiters.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace uroce::dropin::rsocket {

Waiter::Waiter() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Waiter::~Waiter() {
  if (fd_ >= 0) close(fd_);
}

Waiter& Waiter::mine() {
  static thread_local Waiter waiter;
  return waiter;
}

void Waiter::wake() const { eventfd_write(fd_, 1); }

void Waiter::clear() const {
  eventfd_t count = 0;
  eventfd_read(fd_, &count);
}

void Waiters::add(Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  waiters_.push_back(&waiter);
}

void Waiters::remove(Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  std::erase(waiters_, &waiter);
}

void Waiters::wake() {
  const std::lock_guard lock(mutex_);
  for (const Waiter* each : waiters_) {
    if (each != &Waiter::mine()) each->wake();
  }
}

}  // namespace uroce::dropin::rsocket
