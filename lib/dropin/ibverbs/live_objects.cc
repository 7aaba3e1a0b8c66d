#include "dropin/ibverbs/live_objects.h"

namespace uroce::dropin {

LiveObjects& LiveObjects::all() {
  static LiveObjects& objects = *new LiveObjects;  // never destroyed: programs make calls until they exit
  return objects;
}

void LiveObjects::add(const void* object, const Entry& entry) {
  const std::lock_guard lock(mutex_);
  objects_[object] = entry;
}

void LiveObjects::remove(const void* object) {
  const std::lock_guard lock(mutex_);
  objects_.erase(object);
}

std::optional<LiveObjects::Entry> LiveObjects::find(ObjectKind kind, const void* object) {
  const std::lock_guard lock(mutex_);
  const auto found = objects_.find(object);
  if (found == objects_.end() || found->second.kind != kind) return std::nullopt;
  return found->second;
}

}  // namespace uroce::dropin
