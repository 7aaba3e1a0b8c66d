// Events of objects: what was handed out is waited for when the object goes (ibv_ack_cq_events(3)).
#pragma once

#include <pthread.h>

#include <cstdint>

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

/// Waits until as many events are acknowledged as were handed out.
void wait_for_acks(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged, uint32_t delivered);

/// From here on events of `object`, or importers, find it by its id.
template <class Map, class T>
void publish(ibv_context* context, Map SharedContext::* map, uint32_t id, T* object) {
  SharedContext& shared = *of(context)->shared;
  const std::lock_guard lock(shared.mutex);
  (shared.*map)[id] = object;
}

/// Nothing finds the object any more.
template <class Map>
void withdraw(ibv_context* context, Map SharedContext::* map, uint32_t id) {
  SharedContext& shared = *of(context)->shared;
  const std::lock_guard lock(shared.mutex);
  (shared.*map).erase(id);
}

}  // namespace uroce::dropin
