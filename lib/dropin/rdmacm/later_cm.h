// Calls of <rdma/rdma_cma.h> that rdma-core has had since release 60, with their constants. The names are our own, so
// that older and newer headers can be included beside this one.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>

namespace uroce::dropin::rdmacm::later {

/// RAI_SA and RAI_DNS: an address is asked of a subnet administrator, or of the resolver.
constexpr int kAskAdministrator = 0x10;
constexpr int kAskResolver = 0x20;

/// Numbers of enum rdma_cm_event_type, which cannot have these values in older headers.
constexpr uint32_t kAddrinfoResolved = 16;
constexpr uint32_t kAddrinfoError = 17;
constexpr uint32_t kUserEvent = 18;

// Release 60, RDMACM_1.4.
int resolve_addrinfo(rdma_cm_id* id, const char* node, const char* service,
                     const rdma_addrinfo* hints) __asm__("rdma_resolve_addrinfo");
int query_addrinfo(rdma_cm_id* id, rdma_addrinfo** info) __asm__("rdma_query_addrinfo");
/// The event has `argument` in its union `param`. `event` is an rdma_cm_event_type.
int write_cm_event(rdma_cm_id* id, uint32_t event, int status, uint64_t argument) __asm__("rdma_write_cm_event");

}  // namespace uroce::dropin::rdmacm::later
