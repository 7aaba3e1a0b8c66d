#include "dropin/ibverbs/live_objects.h"

#include <cstdio>

#include "dropin/common/report.h"

namespace uroce::dropin {

namespace {

const char* kind_name(ObjectKind kind) {
  switch (kind) {
    case ObjectKind::pd: return "protection domain";
    case ObjectKind::dm: return "device memory";
    case ObjectKind::mr: return "memory region";
    case ObjectKind::mw: return "memory window";
    case ObjectKind::channel: return "completion channel";
    case ObjectKind::cq: return "completion queue";
    case ObjectKind::srq: return "shared receive queue";
    case ObjectKind::qp: return "queue pair";
    case ObjectKind::ah: return "address handle";
    case ObjectKind::xrcd: return "XRC domain";
    case ObjectKind::flow: return "receive rule";
    case ObjectKind::wq: return "receive work queue";
    case ObjectKind::counters: return "counters object";
    case ObjectKind::ind_table: return "indirection table";
  }
  return "object";
}

}  // namespace

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

int refuse_dead(ObjectKind kind, const void* object, int code) {
  char text[160];
  std::snprintf(
      text, sizeof(text),
      "there is no %s at %p, or its handle or context was changed; pass one that was created and not destroyed",
      kind_name(kind), object);
  return report({code, text});
}

}  // namespace uroce::dropin
