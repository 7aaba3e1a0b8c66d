// Connecting, accepting, rejecting and disconnecting (rdma_connect(3), rdma_accept(3), rdma_disconnect(3) and others).
#include <algorithm>

#include "dropin/common/qp_attr.h"
#include "dropin/rdmacm/objects.h"
#include "dropin/rdmacm/verbs_table.h"
#include "message/cm_reject_reasons.h"

namespace uroce::dropin::rdmacm {

namespace {

using message::RejReason;

/// Attributes that bring the id's queue pair to `state`. 0, or -1 with errno.
int attributes(Id& id, ibv_qp_state state, ibv_qp_attr& attr, int& mask) {
  auto wanted = id.api.qp_attr(static_cast<QpState>(state));
  if (!wanted) return report_minus_one(wanted.error());
  convert(wanted->first, attr);
  mask = static_cast<int>(wanted->second.bits());
  return 0;
}

/// 0 or EINVAL. A queue pair, or parameters with a queue pair number, are required; for RDMA_PS_TCP the depths must be
/// within the device's limits.
int check(const Id& id, const rdma_conn_param* param) {
  if (id.device == nullptr || (id.qp == nullptr && param == nullptr)) return EINVAL;
  if (id.ps != RDMA_PS_TCP || param == nullptr) return 0;
  const bool deep =
      param->initiator_depth != RDMA_MAX_INIT_DEPTH && param->initiator_depth > id.device->max_initiator_depth;
  const bool many = param->responder_resources != RDMA_MAX_RESP_RES &&
                    param->responder_resources > id.device->max_responder_resources;
  return deep || many ? EINVAL : 0;
}

/// The parameters that connect and accept send. The depths are the id's.
CmParam terms(const Id& id, const rdma_conn_param* from) {
  CmParam to;
  to.private_data = id.connect_data;
  if (from != nullptr) {
    const auto* data = static_cast<const std::byte*>(from->private_data);
    if (data != nullptr) to.private_data.insert(to.private_data.end(), data, data + from->private_data_len);
    to.flow_control = from->flow_control != 0;
    to.retry_count = from->retry_count;
    to.rnr_retry_count = from->rnr_retry_count;
    to.srq = from->srq != 0;
    to.qpn = from->qp_num;
  }
  if (id.qp != nullptr) {
    to.qpn = id.qp->qp_num;
    to.srq = id.qp->srq != nullptr;
  } else if (!id.is_datagram()) {
    to.ece_vendor = id.local_ece.vendor_id;
    to.ece_options = id.local_ece.options;
  }
  to.initiator_depth = id.initiator_depth;
  to.responder_resources = id.responder_resources;
  return to;
}

/// The id's queue pair for calls that move it, too; null where it has none, or one of datagrams, which is in RTS.
QueuePair* queue_pair(const Id& id) {
  return id.qp != nullptr && !id.is_datagram() ? verbs_table().queue_pair(id.qp) : nullptr;
}

int reject(Id& id, const void* private_data, uint8_t length, RejReason reason) {
  const auto* data = static_cast<const std::byte*>(private_data);
  return done(id.api.reject({data, data != nullptr ? length : std::size_t{0}}, static_cast<uint8_t>(reason)));
}

}  // namespace

int modify(ibv_qp* qp, ibv_qp_attr& attr, int mask) {
  const int error = ibv_modify_qp(qp, &attr, mask);
  return error == 0 ? 0 : minus_one(error);
}

int to_error(Id& id) {
  if (id.qp == nullptr) return 0;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return modify(id.qp, attr, IBV_QP_STATE);
}

}  // namespace uroce::dropin::rdmacm

using namespace uroce::dropin;
using namespace uroce::dropin::rdmacm;

extern "C" {

int rdma_connect(rdma_cm_id* cm_id, rdma_conn_param* param) {
  Id& id = *of(cm_id);
  if (const int fault = check(id, param); fault != 0) return minus_one(fault);
  const bool deepest = param == nullptr || param->initiator_depth == RDMA_MAX_INIT_DEPTH;
  const bool most = param == nullptr || param->responder_resources == RDMA_MAX_RESP_RES;
  id.initiator_depth = deepest ? id.device->max_initiator_depth : param->initiator_depth;
  id.responder_resources = most ? id.device->max_responder_resources : param->responder_resources;
  const auto wanted = terms(id, param);
  auto* const qp = queue_pair(id);
  const auto asked = qp != nullptr ? id.api.connect(wanted, *qp) : id.api.connect(wanted);
  if (!asked) return report_minus_one(asked.error());
  id.connect_data.clear();
  return complete(id);
}

int rdma_accept(rdma_cm_id* cm_id, rdma_conn_param* param) {
  Id& id = *of(cm_id);
  if (const int fault = check(id, param); fault != 0) return minus_one(fault);
  const bool deepest = param == nullptr || param->initiator_depth == RDMA_MAX_INIT_DEPTH;
  const bool most = param == nullptr || param->responder_resources == RDMA_MAX_RESP_RES;
  id.initiator_depth = deepest ? std::min(id.initiator_depth, id.device->max_initiator_depth) : param->initiator_depth;
  id.responder_resources =
      most ? std::min(id.responder_resources, id.device->max_responder_resources) : param->responder_resources;
  const auto wanted = terms(id, param);
  auto* const qp = queue_pair(id);
  const auto accepted = qp != nullptr ? id.api.accept(wanted, *qp) : id.api.accept(wanted);
  if (!accepted) return report_minus_one(accepted.error());
  if (qp != nullptr) verbs_table().note_state(id.qp, IBV_QPS_RTS);
  return id.is_datagram() ? 0 : complete(id);  // SIDR has no third message to wait for
}

int rdma_reject(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
  return reject(*of(id), private_data, private_data_len, RejReason::consumer_reject);
}

int rdma_reject_ece(rdma_cm_id* id, const void* private_data, uint8_t private_data_len) {
  return reject(*of(id), private_data, private_data_len, RejReason::vendor_option_not_supported);
}

int rdma_establish(rdma_cm_id* cm_id) {
  Id& id = *of(cm_id);
  if (id.qp != nullptr) return minus_one(EINVAL);  // with a queue pair, CONNECT_RESPONSE already established it
  return done(id.api.establish());
}

int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  if (event != IBV_EVENT_COMM_EST) return minus_one(EINVAL);
  return done(of(id)->api.notify_established());
}

int rdma_disconnect(rdma_cm_id* cm_id) {
  Id& id = *of(cm_id);
  if (id.verbs == nullptr) return minus_one(EINVAL);
  auto* const qp = queue_pair(id);
  if (qp == nullptr && to_error(id) != 0) return -1;
  const auto asked = qp != nullptr ? id.api.disconnect(*qp) : id.api.disconnect();
  if (!asked) return report_minus_one(asked.error());
  if (qp != nullptr) verbs_table().note_state(id.qp, IBV_QPS_ERR);
  return complete(id);
}

int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  ibv_qp_attr wanted{};
  if (attributes(*of(id), attr->qp_state, wanted, *mask) != 0) return -1;
  *attr = wanted;
  return 0;
}

// Enhanced connection establishment (ECE). For a queue pair of its own an id sends nothing: uroce has no options, and a
// peer's library may refuse a maker that it does not know.

int rdma_set_local_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr || ece->vendor_id == 0 || ece->comp_mask != 0) {
    return minus_one(EINVAL);
  }
  of(id)->local_ece = *ece;
  return 0;
}

int rdma_get_remote_ece(rdma_cm_id* id, ibv_ece* ece) {
  if (id == nullptr || id->qp != nullptr || ece == nullptr) return minus_one(EINVAL);
  *ece = of(id)->remote_ece;
  return 0;
}

}  // extern "C"
