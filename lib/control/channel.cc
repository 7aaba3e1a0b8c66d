#include "control/channel.h"

#include <algorithm>

#include "control/cq.h"

namespace uroce::control {

std::optional<uint32_t> Channel::take() {
  const std::scoped_lock lock(mutex_);
  // The descriptor is raised after the queue's count: with one taken here, a count is sure to be found.
  if (!fd_.take()) return std::nullopt;
  // Queues are few per channel, and events rare beside completions: a walk is cheap enough.
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    Cq& cq = *queues_[(next_ + i) % queues_.size()];
    if (!cq.take_event()) continue;
    next_ = (next_ + i + 1) % queues_.size();
    return cq.id();
  }
  return std::nullopt;
}

void Channel::add(Cq& cq) {
  const std::scoped_lock lock(mutex_);
  queues_.push_back(&cq);
}

void Channel::remove(Cq& cq) {
  const std::scoped_lock lock(mutex_);
  std::erase(queues_, &cq);
  while (cq.take_event()) fd_.take();
}

}  // namespace uroce::control
