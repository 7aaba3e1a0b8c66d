// The attributes that move a connection's queue pair to INIT, RTR and RTS (rdma_init_qp_attr(3); IBTA vol. 1, 12.9.8).
#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/wr_opcodes.h"
#include "cm/manager_impl.h"

namespace uroce::cm {
namespace {

using Attributes = std::pair<QpAttr, QpAttrMask>;

/// The minimum RNR NAK timer: code 0, 655.36 ms, as Linux has it (cm_init_qp_rtr_attr()). Peers that find no receive
/// then try for seconds; programs that post their receives late count on it.
constexpr uint8_t kRnrTimer = 0;

Attributes init_of(const Id& id) {
  QpAttr attr{.state = QpState::init};
  const QpAttrMask common = QpAttrMask(QpAttrBit::state) | QpAttrBit::pkey_index | QpAttrBit::port;
  if (id.type == QpType::ud) {
    attr.qkey = kUdpQkey;
    return {attr, common | QpAttrBit::qkey};
  }
  attr.access = Access::remote_write;
  if (id.responder_resources != 0) attr.access |= Access::remote_read | Access::remote_atomic | Access::flush_global;
  return {attr, common | QpAttrBit::access_flags};
}

Attributes rtr_of(const Id& id, const CmConnection& connection) {
  const DeviceInfo& info = id.agent->device->info();
  QpAttr attr{.state = QpState::rtr,
              .path_mtu = std::min(connection.request.path.mtu, info.active_mtu),
              .rq_psn = id.psn,  // 12.7.25: the receiver of a message begins to send at the message's Starting PSN.
              .dest_qpn = connection.remote_qpn};
  attr.av = {.dgid = id.dgid,
             .sgid_index = id.agent->gid_index(id.sgid).value_or(0),
             .hop_limit = connection.request.path.hop_limit,
             .traffic_class = id.type_of_service,
             .flow_label = connection.request.path.flow_label};
  QpAttrMask mask =
      QpAttrMask(QpAttrBit::state) | QpAttrBit::av | QpAttrBit::path_mtu | QpAttrBit::dest_qpn | QpAttrBit::rq_psn;
  if (id.type == QpType::rc || id.type == QpType::xrc_target) {
    attr.max_dest_rd_atomic = std::min(id.responder_resources, static_cast<uint8_t>(kMaxRdAtomic));
    attr.min_rnr_timer = kRnrTimer;
    mask |= QpAttrMask(QpAttrBit::max_dest_rd_atomic) | QpAttrBit::min_rnr_timer;
  }
  return {attr, mask};
}

Attributes rts_of(const Id& id, const CmConnection& connection) {
  QpAttr attr{.state = QpState::rts, .sq_psn = connection.remote_psn};
  QpAttrMask mask = QpAttrMask(QpAttrBit::state) | QpAttrBit::sq_psn;
  if (is_reliable(id.type)) {
    attr.timeout = id.ack_timeout.value_or(connection.request.path.ack_timeout);
    mask |= QpAttrBit::timeout;
  }
  if (id.type == QpType::rc || id.type == QpType::xrc_initiator) {
    attr.retry_cnt = connection.request.retry_count;
    attr.rnr_retry = connection.active ? connection.reply.rnr_retry_count : connection.request.rnr_retry_count;
    attr.max_rd_atomic = std::min(id.initiator_depth, static_cast<uint8_t>(kMaxRdAtomic));
    mask |= QpAttrMask(QpAttrBit::retry_cnt) | QpAttrBit::rnr_retry | QpAttrBit::max_rd_atomic;
  }
  return {attr, mask};
}

}  // namespace

Result<Attributes> attributes_of(const Id& id, QpState state) {
  if (id.agent == nullptr) return wrong_state(id, "qp_attr", "an id with a device");
  if (state == QpState::init) return init_of(id);
  if (id.type == QpType::ud) {
    if (state == QpState::rtr) return Attributes{{.state = state}, QpAttrBit::state};
    if (state == QpState::rts) {
      return Attributes{{.state = state, .sq_psn = id.psn}, QpAttrMask(QpAttrBit::state) | QpAttrBit::sq_psn};
    }
  }
  if (state != QpState::rtr && state != QpState::rts) {
    return fail(EINVAL, "qp_attr: a connection has attributes for the states INIT, RTR and RTS only");
  }
  const auto* connection = id.connection != 0 ? id.agent->cm.find(id.connection) : nullptr;
  if (connection == nullptr || id.state == IdState::connecting) {
    return wrong_state(id, "qp_attr for RTR or RTS", "a REQ or REP from the peer");
  }
  return state == QpState::rtr ? rtr_of(id, *connection) : rts_of(id, *connection);
}

}  // namespace uroce::cm
