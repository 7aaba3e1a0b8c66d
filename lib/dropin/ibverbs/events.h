// Events of objects: what was handed out is waited for when the object goes (ibv_ack_cq_events(3)).
#pragma once

#include <pthread.h>

#include <cstdint>

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

/// A descriptor of ours that is readable while `fd` is. -1 with errno on failure.
int outer_descriptor(int fd);

/// Waits until as many events are acknowledged as were handed out.
void wait_for_acks(pthread_mutex_t& mutex, pthread_cond_t& cond, const uint32_t& acknowledged, uint32_t delivered);

/// From here on events of `object` find it by its id.
template <class Map, class T>
void publish(VerbsContext& context, Map VerbsContext::* map, uint32_t id, T* object) {
  const std::lock_guard lock(context.events_mutex);
  (context.*map)[id] = object;
}

/// No event finds the object any more.
template <class Map>
void withdraw(VerbsContext& context, Map VerbsContext::* map, uint32_t id) {
  const std::lock_guard lock(context.events_mutex);
  (context.*map).erase(id);
}

}  // namespace uroce::dropin
