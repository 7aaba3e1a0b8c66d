#include "dropin/ibverbs/raised_events.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "dropin/common/kernel_epoll.h"

namespace uroce::dropin {

RaisedEvents::~RaisedEvents() {
  if (fd_ >= 0) close(fd_);
}

void RaisedEvents::add_queue() {
  const std::lock_guard lock(mutex_);
  events_.reserve(++queues_);
}

void RaisedEvents::remove_queue(uint32_t cq) {
  const std::lock_guard lock(mutex_);
  --queues_;
  eventfd_t count = 0;
  if (std::erase_if(events_, [cq](const Event& event) { return event.cq == cq; }) != 0 && events_.empty())
    eventfd_read(fd_, &count);
}

bool RaisedEvents::raise(uint32_t cq, std::size_t engines) {
  const std::lock_guard lock(mutex_);
  if (waiting_ != 0 || !open_descriptor()) return false;
  if (std::ranges::find(events_, cq, &Event::cq) != events_.end()) return true;
  events_.push_back({cq, engines_taken_ + engines});
  if (events_.size() == 1) eventfd_write(fd_, 1);
  return true;
}

std::optional<uint32_t> RaisedEvents::take() {
  const std::lock_guard lock(mutex_);
  return take_locked();
}

std::optional<uint32_t> RaisedEvents::take_locked() {
  if (events_.empty()) return std::nullopt;
  const uint32_t id = events_.front().cq;
  events_.erase(events_.begin());
  eventfd_t count = 0;
  if (events_.empty()) eventfd_read(fd_, &count);
  return id;
}

bool RaisedEvents::is_behind() {
  const std::lock_guard lock(mutex_);
  return !events_.empty() && engines_taken_ < events_.front().engines;
}

void RaisedEvents::count_engines() {
  const std::lock_guard lock(mutex_);
  ++engines_taken_;
}

bool RaisedEvents::open_descriptor() {
  if (fd_ >= 0) return true;
  const int made = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (made < 0) return false;
  epoll_event event{};
  event.events = EPOLLIN;
  if (kernel_epoll::ctl(outer_, EPOLL_CTL_ADD, made, &event) != 0) {
    close(made);
    return false;
  }
  fd_ = made;
  return true;
}

RaisedEvents::Waiting::Waiting(RaisedEvents& events) : events_(events) {
  const std::lock_guard lock(events_.mutex_);
  first = events_.take_locked();
  ++events_.waiting_;
}

RaisedEvents::Waiting::~Waiting() {
  const std::lock_guard lock(events_.mutex_);
  --events_.waiting_;
}

}  // namespace uroce::dropin
