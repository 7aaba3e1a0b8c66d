// Events of objects. Destroying an object waits until the events that were delivered for it are acknowledged
// (ibv_ack_cq_events(3)).
#pragma once

#include <pthread.h>

#include <cstdint>

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

/// Waits until as many events are acknowledged as were delivered.
void wait_for_acks(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged, uint32_t delivered);

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

}  // namespace uroce::dropin
