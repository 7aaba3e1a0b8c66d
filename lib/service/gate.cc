#include "service/gate.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace uroce::service {

Gate::Gate() : bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void Gate::close() {
  const std::scoped_lock lock(mutex_);
  open_ = false;
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = write(bell_.get(), &one, sizeof one);
}

void Gate::open() {
  const std::scoped_lock lock(mutex_);
  open_ = true;
  uint64_t count = 0;
  [[maybe_unused]] const auto got = read(bell_.get(), &count, sizeof count);
  changed_.notify_all();
}

void Gate::pass() {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.wait(lock, [this] { return open_; });
  --waiting_;
}

bool Gate::holds(std::size_t threads) {
  const std::scoped_lock lock(mutex_);
  return waiting_ >= threads;
}

}  // namespace uroce::service
