// Synchronous endpoints, created from the results of rdma_getaddrinfo(3) (rdma_create_ep(3), rdma_get_request(3)).
#include "dropin/common/foreign_enum.h"
#include "dropin/rdmacm/objects.h"

namespace uroce::dropin::rdmacm {

namespace {

constexpr int kResolveMs = 2000;

int make_passive(Id& id, const rdma_addrinfo& from, ibv_pd* pd, const ibv_qp_init_attr* qp) {
  if (rdma_bind_addr(&id, from.ai_src_addr) != 0) return -1;
  if (pd != nullptr) id.pd = pd;
  if (qp == nullptr) return 0;
  id.request_qp = *qp;
  id.request_qp->qp_type = static_cast<ibv_qp_type>(from.ai_qp_type);
  return 0;
}

int resolve_route(Id& id, const rdma_addrinfo& from) {
  if (from.ai_route_len == 0) return rdma_resolve_route(&id, kResolveMs);
  if (rdma_set_option(&id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, from.ai_route, from.ai_route_len) != 0) return -1;
  return complete(id);
}

int make_active(Id& id, const rdma_addrinfo& from, ibv_pd* pd, ibv_qp_init_attr* qp) {
  sockaddr* local = from.ai_src_len != 0 ? from.ai_src_addr : nullptr;
  if (rdma_resolve_addr(&id, local, from.ai_dst_addr, kResolveMs) != 0) return -1;
  if (resolve_route(id, from) != 0) return -1;
  if (qp != nullptr) {
    qp->qp_type = static_cast<ibv_qp_type>(from.ai_qp_type);
    if (rdma_create_qp(&id, pd, qp) != 0) return -1;
  }
  const auto* data = static_cast<const std::byte*>(from.ai_connect);
  id.connect_data.assign(data, data + from.ai_connect_len);
  return 0;
}

/// 0 for a successful connect request; otherwise the event's errno value.
int fault_of(const rdma_cm_event& event) {
  const uint32_t type = number_of(event.event);
  if (type == RDMA_CM_EVENT_REJECTED) return ECONNREFUSED;
  if (event.status != 0) return std::abs(event.status);
  return type == RDMA_CM_EVENT_CONNECT_REQUEST ? 0 : EINVAL;
}

}  // namespace

}  // namespace uroce::dropin::rdmacm

using namespace uroce::dropin;
using namespace uroce::dropin::rdmacm;

extern "C" {

int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* res, ibv_pd* pd, ibv_qp_init_attr* qp_init_attr) {
  Id* made =
      make_id(nullptr, nullptr, static_cast<uint32_t>(res->ai_port_space), static_cast<uint32_t>(res->ai_qp_type));
  if (made == nullptr) return -1;
  const bool passive = (res->ai_flags & RAI_PASSIVE) != 0;
  const int result = passive ? make_passive(*made, *res, pd, qp_init_attr) : make_active(*made, *res, pd, qp_init_attr);
  if (result != 0) {
    const int reason = errno;
    rdma_destroy_ep(made);
    return minus_one(reason);
  }
  *id = made;
  return 0;
}

void rdma_destroy_ep(rdma_cm_id* id) {
  if (id->qp != nullptr) rdma_destroy_qp(id);
  if (id->srq != nullptr) rdma_destroy_srq(id);
  rdma_destroy_id(id);
}

int rdma_get_request(rdma_cm_id* listen, rdma_cm_id** id) {
  Id& listener = *of(listen);
  if (!listener.sync) return minus_one(EINVAL);
  if (listen->event != nullptr) rdma_ack_cm_event(listen->event);
  listen->event = nullptr;

  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(listen->channel, &event) != 0) return -1;
  int fault = fault_of(*event);
  if (fault == 0 && listener.request_qp) {
    ibv_qp_init_attr attr = *listener.request_qp;
    if (rdma_create_qp(event->id, listen->pd, &attr) != 0) fault = errno;
  }
  if (fault != 0) {
    listen->event = event;
    return minus_one(fault);
  }
  *id = event->id;
  event->id->event = event;
  return 0;
}

}  // extern "C"
