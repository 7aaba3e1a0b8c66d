#include "control/async_events.h"

#include <algorithm>

namespace uroce::control {

EventObject object_of(AsyncEventType type) {
  switch (type) {
    case AsyncEventType::cq_error: return EventObject::cq;
    case AsyncEventType::srq_error:
    case AsyncEventType::srq_limit_reached: return EventObject::srq;
    case AsyncEventType::device_fatal:
    case AsyncEventType::port_active:
    case AsyncEventType::port_error:
    case AsyncEventType::gid_change: return EventObject::port;
    case AsyncEventType::qp_fatal:
    case AsyncEventType::qp_request_error:
    case AsyncEventType::qp_access_error:
    case AsyncEventType::communication_established:
    case AsyncEventType::sq_drained:
    case AsyncEventType::last_wqe_reached: break;
  }
  return EventObject::qp;
}

AsyncEventQueue::AsyncEventQueue(EventFd fd, uint32_t capacity, const transport::Owner& owner)
    : fd_(std::move(fd)), owner_(owner), capacity_(capacity), events_(std::make_unique<AsyncEvent[]>(capacity)) {}

void AsyncEventQueue::add_object() {
  const uint32_t wanted = kOfDevice + ++objects_ * kOfObject;
  if (wanted > capacity_) grow(std::max(wanted, 2 * capacity_));
}

// Engines take the lock, so memory is allocated without it.
void AsyncEventQueue::grow(uint32_t capacity) {
  auto larger = std::make_unique<AsyncEvent[]>(capacity);
  const std::scoped_lock lock(mutex_);
  for (uint32_t i = 0; i < count_; ++i) larger[i] = events_[(first_ + i) % capacity_];
  events_.swap(larger);
  first_ = 0;
  capacity_ = capacity;
}

void AsyncEventQueue::push(AsyncEvent event) {
  const std::scoped_lock lock(mutex_);
  if (count_ == capacity_) {
    ++lost_;
    return;
  }
  events_[(first_ + count_++) % capacity_] = event;
  fd_.signal();
}

std::optional<AsyncEvent> AsyncEventQueue::pop() {
  const std::scoped_lock lock(mutex_);
  if (count_ == 0) return std::nullopt;
  fd_.take();
  const AsyncEvent event = events_[first_];
  first_ = (first_ + 1) % capacity_;
  --count_;
  return event;
}

void AsyncEventQueue::purge(EventObject kind, uint32_t object) {
  const std::scoped_lock lock(mutex_);
  uint32_t kept = 0;
  for (uint32_t i = 0; i < count_; ++i) {
    const AsyncEvent event = events_[(first_ + i) % capacity_];
    if (event.object == object && object_of(event.type) == kind) {
      fd_.take();
    } else {
      events_[(first_ + kept++) % capacity_] = event;
    }
  }
  count_ = kept;
}

uint64_t AsyncEventQueue::lost() const {
  const std::scoped_lock lock(mutex_);
  return lost_;
}

}  // namespace uroce::control
