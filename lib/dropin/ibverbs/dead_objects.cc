// The answer to calls with objects that do not exist.
#include <cstdio>

#include "dropin/common/report.h"
#include "dropin/ibverbs/live_objects.h"
#include "dropin/ibverbs/validation.h"

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

int refuse_dead(ObjectKind kind, const void* object, int code) {
  validation::dead(kind_name(kind), object);
  char text[160];
  std::snprintf(
      text, sizeof(text),
      "there is no %s at %p, or its handle or context was changed; pass one that was created and not destroyed",
      kind_name(kind), object);
  return report({code, text});
}

}  // namespace uroce::dropin
