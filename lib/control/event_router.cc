#include "control/event_router.h"

#include <algorithm>

#include "control/completion_listener.h"

namespace uroce::control {

void EventRouter::add(EventObject kind, uint32_t object, AsyncEventQueue& queue) {
  queue.add_object();
  const std::scoped_lock lock(mutex_);
  routes_.insert_or_assign(key(kind, object), &queue);
}

void EventRouter::remove(EventObject kind, uint32_t object) {
  const std::scoped_lock lock(mutex_);
  const auto route = routes_.find(key(kind, object));
  if (route == routes_.end()) return;
  route->second->purge(kind, object);
  route->second->remove_object();
  routes_.erase(route);
}

void EventRouter::add_listener(AsyncEventQueue& queue) {
  const std::scoped_lock lock(mutex_);
  listeners_.push_back(&queue);
}

void EventRouter::remove_listener(AsyncEventQueue& queue) {
  const std::scoped_lock lock(mutex_);
  std::erase(listeners_, &queue);
}

void EventRouter::broadcast(AsyncEvent event) {
  const std::scoped_lock lock(mutex_);
  for (AsyncEventQueue* queue : listeners_) queue->push(event);
}

void EventRouter::on_completion_event(uint32_t cq_id) {
  // The queue pair of this completion keeps the queue alive.
  if (CompletionListener* cq = cqs_.find(cq_id); cq != nullptr) cq->fire();
}

void EventRouter::on_async_event(AsyncEventType type, uint32_t object) {
  const std::scoped_lock lock(mutex_);
  const auto route = routes_.find(key(object_of(type), object));
  if (route != routes_.end()) route->second->push({type, object});
}

}  // namespace uroce::control
