// Events of objects. Destroying an object waits until the events that were delivered for it are acknowledged
// (ibv_ack_cq_events(3)).
#pragma once

#include <pthread.h>

#include <cstdint>

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

/// Waits until as many events of `what` ("queue pair") are acknowledged as were delivered.
void wait_for_acks(const char* what, pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged,
                   uint32_t delivered);

/// Lets events and importers find `object` by its id.
template <class Map, class T>
void publish(ibv_context* context, Map SharedContext::* map, uint32_t id, T* object) {
  SharedContext& shared = *of(context)->shared;
  const std::lock_guard lock(shared.mutex);
  (shared.*map)[id] = object;
}

/// Hides the object from events and importers.
template <class Map>
void withdraw(ibv_context* context, Map SharedContext::* map, uint32_t id) {
  SharedContext& shared = *of(context)->shared;
  const std::lock_guard lock(shared.mutex);
  (shared.*map).erase(id);
}

/// The same, unless another object has taken the id: a program may open an XRC target that it has made.
template <class Map, class T>
void withdraw(ibv_context* context, Map SharedContext::* map, uint32_t id, const T* object) {
  SharedContext& shared = *of(context)->shared;
  const std::lock_guard lock(shared.mutex);
  const auto found = (shared.*map).find(id);
  if (found != (shared.*map).end() && found->second == object) (shared.*map).erase(found);
}

}  // namespace uroce::dropin
