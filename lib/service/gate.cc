#include "service/gate.h"

#include <sys/eventfd.h>
#include <unistd.h>

namespace uroce::service {

Gate::Gate() : bell_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

void Gate::close() { change(State::closed); }
void Gate::open() { change(State::open); }
void Gate::leave() { change(State::left); }

void Gate::change(State state) {
  const std::scoped_lock lock(mutex_);
  state_ = state;
  uint64_t count = 1;
  [[maybe_unused]] const auto done =
      state == State::open ? read(bell_.get(), &count, sizeof count) : write(bell_.get(), &count, sizeof count);
  changed_.notify_all();
}

bool Gate::pass() {
  std::unique_lock lock(mutex_);
  ++waiting_;
  changed_.notify_all();
  changed_.wait(lock, [this] { return state_ != State::closed; });
  --waiting_;
  return state_ == State::open;
}

bool Gate::holds(std::size_t threads, std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, patience, [&] { return waiting_ >= threads; });
}

}  // namespace uroce::service
