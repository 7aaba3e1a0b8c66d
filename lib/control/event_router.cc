#include "control/event_router.h"

#include <algorithm>

#include "control/completion_listener.h"

namespace uroce::control {

void EventRouter::add(EventObject kind, uint32_t object, AsyncEventQueue& queue) {
  queue.add_object();
  const std::scoped_lock lock(mutex_);
  routes_.emplace(key(kind, object), &queue);
}

void EventRouter::remove(EventObject kind, uint32_t object) {
  const std::scoped_lock lock(mutex_);
  while (true) {
    const auto route = routes_.find(key(kind, object));
    if (route == routes_.end()) return;
    end_route(route);
  }
}

void EventRouter::remove(EventObject kind, uint32_t object, AsyncEventQueue& queue) {
  const std::scoped_lock lock(mutex_);
  const auto [first, last] = routes_.equal_range(key(kind, object));
  const auto route = std::find_if(first, last, [&queue](const auto& one) { return one.second == &queue; });
  if (route != last) end_route(route);
}

void EventRouter::end_route(Routes::iterator route) {
  AsyncEventQueue& queue = *route->second;
  const uint64_t object = route->first;
  routes_.erase(route);
  queue.remove_object();
  const auto [first, last] = routes_.equal_range(object);
  const bool again = std::any_of(first, last, [&queue](const auto& one) { return one.second == &queue; });
  if (!again) queue.purge(static_cast<EventObject>(object >> 32), static_cast<uint32_t>(object));
}

void EventRouter::add_listener(AsyncEventQueue& queue) {
  const std::scoped_lock lock(mutex_);
  listeners_.push_back(&queue);
}

void EventRouter::remove_listener(AsyncEventQueue& queue) {
  const std::scoped_lock lock(mutex_);
  std::erase(listeners_, &queue);
}

std::vector<uint32_t> EventRouter::objects(EventObject kind) {
  std::vector<uint32_t> out;
  const std::scoped_lock lock(mutex_);
  for (const auto& [of, queue] : routes_) {
    if (static_cast<EventObject>(of >> 32) == kind) out.push_back(static_cast<uint32_t>(of));
  }
  std::ranges::sort(out);
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
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
  const auto [first, last] = routes_.equal_range(key(object_of(type), object));
  for (auto route = first; route != last; ++route) {
    const auto seen = [queue = route->second](const auto& one) { return one.second == queue; };
    if (std::none_of(first, route, seen)) route->second->push({type, object});
  }
}

void EventRouter::on_wrong_key(const Gid& peer, uint32_t qpn) {
  const std::scoped_lock lock(mutex_);
  const auto route = routes_.find(key(EventObject::qp, qpn));
  if (route == routes_.end()) return;
  const uint32_t user = route->second->user();
  const std::size_t used = wrong_keys_used_.load(std::memory_order_relaxed);
  std::size_t at = 0;
  while (at < used && (wrong_keys_[at].peer != peer || wrong_keys_[at].user != user)) ++at;
  if (at == kWrongKeys) return;
  if (at == used) {
    wrong_keys_[at] = {.peer = peer, .user = user};
    wrong_keys_used_.store(used + 1, std::memory_order_relaxed);
  }
  ++wrong_keys_[at].connections;
}

std::vector<WrongKeys> EventRouter::take_wrong_keys() {
  if (wrong_keys_used_.load(std::memory_order_relaxed) == 0) return {};
  const std::scoped_lock lock(mutex_);
  const auto first = wrong_keys_.begin();
  return {first, first + static_cast<std::ptrdiff_t>(wrong_keys_used_.exchange(0, std::memory_order_relaxed))};
}

void EventRouter::on_end(const transport::QpEnd& end) {
  const std::scoped_lock lock(mutex_);
  const auto route = routes_.find(key(EventObject::qp, end.qpn));
  if (route == routes_.end()) return;
  const uint64_t told = ends_told_.load(std::memory_order_relaxed);
  if (told < kEnds) ends_[told] = {.client = route->second->client(), .end = end};
  ends_told_.store(told + 1, std::memory_order_relaxed);
}

QpEnds EventRouter::take_ends() {
  if (ends_told_.load(std::memory_order_relaxed) == 0) return {};
  const std::scoped_lock lock(mutex_);
  const uint64_t told = ends_told_.exchange(0, std::memory_order_relaxed);
  const auto kept = static_cast<std::ptrdiff_t>(std::min<uint64_t>(told, kEnds));
  return {.ends = {ends_.begin(), ends_.begin() + kept}, .more = told - static_cast<uint64_t>(kept)};
}

}  // namespace uroce::control
