// Events that programs raise themselves: of their own, and the results of name resolution (rdma_write_cm_event(3),
// rdma_resolve_addrinfo(3)).
#include <netdb.h>

#include "dropin/rdmacm/later_cm.h"
#include "dropin/rdmacm/objects.h"

namespace uroce::dropin::rdmacm {

namespace {

/// The status of an event, from a result of rdma_getaddrinfo().
int status_of(int error) {
  switch (error) {
    case EAI_AGAIN: return -EAGAIN;
    case EAI_MEMORY: return -ENOMEM;
    case -1:  // its own results; also EAI_BADFLAGS
    case EAI_SYSTEM: return errno != 0 ? -errno : -EIO;
    default: return -ENOENT;
  }
}

/// False while the last result was not queried.
bool begin(Id& id) {
  const std::lock_guard lock(id.client->mutex);
  return !std::exchange(id.resolving_info, true);
}

void end(Id& id, rdma_addrinfo* found) {
  const std::lock_guard lock(id.client->mutex);
  id.resolving_info = found != nullptr;
  id.resolved_info.reset(found);
}

Result<void> raise(Id& id, uint32_t type, int status, uint64_t argument = 0) {
  return id.api.raise_event(static_cast<CmEventType>(type), status, argument);
}

}  // namespace

// The resolver is asked at once, as by rdma-core. It fails by an event.
int later::resolve_addrinfo(rdma_cm_id* cm_id, const char* node, const char* service, const rdma_addrinfo* hints) {
  if (cm_id == nullptr || (node == nullptr && service == nullptr && hints == nullptr)) return minus_one(EINVAL);
  if (hints != nullptr && (hints->ai_flags & kAskAdministrator) != 0) {
    return minus_one(refuse(EOPNOTSUPP, "rdma_resolve_addrinfo(): RoCE has no subnet administrator; leave RAI_SA out"));
  }
  Id& id = *of(cm_id);
  if (!begin(id)) return minus_one(EBUSY);
  rdma_addrinfo* found = nullptr;
  errno = 0;
  const int error = rdma_getaddrinfo(node, service, hints, &found);
  const int status = error == 0 ? 0 : status_of(error);
  end(id, found);
  const auto raised = raise(id, status == 0 ? kAddrinfoResolved : kAddrinfoError, status);
  if (raised) return complete(id);
  end(id, nullptr);
  return report_minus_one(raised.error());
}

int later::query_addrinfo(rdma_cm_id* cm_id, rdma_addrinfo** info) {
  if (cm_id == nullptr || info == nullptr) return minus_one(EINVAL);
  Id& id = *of(cm_id);
  const std::lock_guard lock(id.client->mutex);
  if (id.resolved_info == nullptr) return minus_one(ENOENT);
  *info = id.resolved_info.release();
  id.resolving_info = false;
  return 0;
}

int later::write_cm_event(rdma_cm_id* id, uint32_t event, int status, uint64_t argument) {
  if (id == nullptr || event != kUserEvent) return minus_one(EINVAL);
  return done(raise(*of(id), event, status, argument));
}

}  // namespace uroce::dropin::rdmacm
