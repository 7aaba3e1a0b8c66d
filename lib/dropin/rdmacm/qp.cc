// Queue pairs, shared receive queues and the completion queues that come with them (rdma_create_qp(3),
// rdma_create_srq(3)).
#include <array>
#include <cstring>
#include <utility>

#include "dropin/common/foreign_enum.h"
#include "dropin/rdmacm/objects.h"
#include "dropin/rdmacm/verbs_table.h"

namespace uroce::dropin::rdmacm {

namespace {

struct CompletionPlace {
  ibv_comp_channel*& channel;
  ibv_cq*& cq;
};

CompletionPlace send_place(rdma_cm_id& id) { return {id.send_cq_channel, id.send_cq}; }
CompletionPlace recv_place(rdma_cm_id& id) { return {id.recv_cq_channel, id.recv_cq}; }

void destroy(CompletionPlace place) {
  if (place.cq != nullptr) ibv_destroy_cq(place.cq);
  if (place.channel != nullptr) ibv_destroy_comp_channel(place.channel);
  place.cq = nullptr;
  place.channel = nullptr;
}

/// The send and receive side may share a queue or a channel: applications set them so.
void destroy_completions(rdma_cm_id& id) {
  // An XRC target's id has them for its shared receive queue.
  if (id.qp_type == IBV_QPT_XRC_RECV && id.srq != nullptr) return;
  if (id.send_cq == id.recv_cq) id.send_cq = nullptr;
  if (id.send_cq_channel == id.recv_cq_channel) id.send_cq_channel = nullptr;
  // A channel goes after both queues.
  if (id.send_cq != nullptr) ibv_destroy_cq(std::exchange(id.send_cq, nullptr));
  destroy(recv_place(id));
  destroy(send_place(id));
}

/// Creates a completion queue of `entries` entries and its channel; nothing for 0 entries.
bool create_completions(rdma_cm_id& id, CompletionPlace place, uint32_t entries) {
  if (entries == 0) return true;
  place.channel = ibv_create_comp_channel(id.verbs);
  if (place.channel == nullptr) return false;
  place.cq = ibv_create_cq(id.verbs, static_cast<int>(entries), &id, place.channel, 0);
  return place.cq != nullptr;
}

/// A queue pair in a group cannot be destroyed. Programs leave their groups before, afterwards, or never.
void detach_groups(Id& id) {
  std::vector<ibv_gid> attached;
  {
    const std::lock_guard lock(id.client->mutex);
    for (const auto& [token, group] : id.groups) {
      if (std::exchange(group->attached, false)) attached.push_back(group->mgid);
    }
  }
  for (const ibv_gid& each : attached) ibv_detach_mcast(id.qp, &each, 0);
}

bool differ(const void* have, const void* wanted) { return have != nullptr && wanted != nullptr && have != wanted; }

/// Fills in the completion queues and the SRQ that the application left out with the id's, and an XRC target's domain:
/// all that a target has.
bool complete_attributes(Id& id, ibv_qp_init_attr_ex& attr) {
  if (id.qp_type == IBV_QPT_XRC_RECV) {
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || attr.xrcd == nullptr) {
      attr.xrcd = id.client->devices.xrc_domain(*id.device);
      attr.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
    }
    return attr.xrcd != nullptr;
  }
  const uint32_t send = attr.send_cq != nullptr || id.send_cq != nullptr ? 0 : attr.cap.max_send_wr;
  const uint32_t recv = attr.recv_cq != nullptr || id.recv_cq != nullptr ? 0 : attr.cap.max_recv_wr;
  if (!create_completions(id, recv_place(id), recv) || !create_completions(id, send_place(id), send)) return false;
  if (attr.send_cq == nullptr) attr.send_cq = id.send_cq;
  if (attr.recv_cq == nullptr) attr.recv_cq = id.recv_cq;
  if (attr.srq == nullptr) attr.srq = id.srq;
  return true;
}

/// A queue pair in INIT, where it waits for its connection; in RTS for UD, which waits for no peer. Null with errno.
ibv_qp* create_started(Id& id, ibv_qp_init_attr_ex& attr) {
  const auto init = id.api.qp_attr(QpState::init);
  if (!init) return report_null(init.error());
  const std::array<QueuePair::Step, 3> steps{
      {{init->first, init->second},
       {{.state = QpState::rtr}, QpAttrBit::state},
       {{.state = QpState::rts}, QpAttrMask(QpAttrBit::state) | QpAttrBit::sq_psn}}};
  return verbs_table().create_qp(id.verbs, &attr, steps.data(), id.is_datagram() ? steps.size() : 1);
}

/// Destroys what rdma_create_qp() has created so far, and keeps errno.
int undo(Id& id) {
  const int reason = errno;
  destroy_completions(id);
  return minus_one(reason);
}

/// Fills in an XRC queue's domain and completion queue that the application left out with the id's.
bool complete_xrc(Id& id, ibv_srq_init_attr_ex& attr) {
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || attr.xrcd == nullptr) {
    attr.xrcd = id.client->devices.xrc_domain(*id.device);
    if (attr.xrcd == nullptr) return false;
  }
  if ((attr.comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || attr.cq == nullptr) {
    if (id.recv_cq == nullptr && !create_completions(id, recv_place(id), attr.attr.max_wr)) return false;
    attr.cq = id.recv_cq;
  }
  attr.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  return true;
}

}  // namespace

}  // namespace uroce::dropin::rdmacm

using namespace uroce::dropin;
using namespace uroce::dropin::rdmacm;

extern "C" {

int rdma_create_qp_ex(rdma_cm_id* cm_id, ibv_qp_init_attr_ex* attr) {
  Id& id = *of(cm_id);
  if (id.qp != nullptr || id.verbs == nullptr) return minus_one(EINVAL);
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
    attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
    attr->pd = id.pd;
  }
  if (attr->pd == nullptr || attr->pd->context != id.verbs) return minus_one(EINVAL);
  if (differ(id.recv_cq, attr->recv_cq) || differ(id.send_cq, attr->send_cq)) return minus_one(EINVAL);
  ibv_qp* const qp = complete_attributes(id, *attr) ? create_started(id, *attr) : nullptr;
  if (qp == nullptr) return undo(id);
  if (qp->pd != nullptr) id.pd = qp->pd;
  id.qp = qp;
  return 0;
}

int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* attr) {
  ibv_qp_init_attr_ex extended{};
  std::memcpy(static_cast<void*>(&extended), attr,
              sizeof(*attr));  // the first part of the extended structure is the plain one
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = pd != nullptr ? pd : id->pd;
  const int result = rdma_create_qp_ex(id, &extended);
  std::memcpy(attr, static_cast<const void*>(&extended), sizeof(*attr));
  return result;
}

void rdma_destroy_qp(rdma_cm_id* id) {
  detach_groups(*of(id));
  ibv_destroy_qp(id->qp);
  id->qp = nullptr;
  destroy_completions(*id);
}

int rdma_create_srq_ex(rdma_cm_id* cm_id, ibv_srq_init_attr_ex* attr) {
  Id* const id = of(cm_id);
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || id->verbs == nullptr) return minus_one(EINVAL);
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
    attr->pd = id->pd;
    attr->comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  }
  const bool had_queue = id->recv_cq != nullptr;
  const bool complete = number_of(attr->srq_type) != IBV_SRQT_XRC || complete_xrc(*id, *attr);
  ibv_srq* srq = complete ? ibv_create_srq_ex(id->verbs, attr) : nullptr;
  if (srq == nullptr) {
    const int reason = errno;
    if (!had_queue) destroy(recv_place(*id));
    return minus_one(reason);
  }
  if (id->pd == nullptr) id->pd = attr->pd;
  id->srq = srq;
  return 0;
}

int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* attr) {
  ibv_srq_init_attr_ex extended{};
  std::memcpy(static_cast<void*>(&extended), attr,
              sizeof(*attr));  // the first part of the extended structure is the plain one
  extended.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
  extended.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
  extended.pd = pd;
  const int result = rdma_create_srq_ex(id, &extended);
  std::memcpy(attr, static_cast<const void*>(&extended), sizeof(*attr));
  return result;
}

void rdma_destroy_srq(rdma_cm_id* id) {
  ibv_destroy_srq(id->srq);
  id->srq = nullptr;
  destroy_completions(*id);
}

}  // extern "C"
