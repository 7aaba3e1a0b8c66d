#include <cerrno>

#include <fmt/format.h>

#include "client/impl.h"

namespace uroce {

namespace client {

QpImpl::QpImpl(const QpParts& parts)
    : parts_(parts),
      has_recv_queue_(parts.place.rq.entries != 0),
      send_queue_(parts.place.sq, parts.type, parts.cap, parts.place.doorbell, parts.doorbell, parts.qpn),
      recv_queue_(parts.place.rq, parts.cap.max_recv_sge) {}

std::size_t QpImpl::post_send(std::span<const SendRequest> requests, int* error) {
  int reason = may_send() ? 0 : EINVAL;
  std::size_t posted = 0;
  while (reason == 0 && posted < requests.size()) {
    reason = send_queue_.put(requests[posted]);
    if (reason == 0) ++posted;
  }
  if (send_queue_.commit()) wake();
  if (error != nullptr) *error = reason;
  return posted;
}

Result<void> QpImpl::modify(const QpAttr& attr, QpAttrMask mask) {
  auto changed = change(attr, mask);
  if (changed && mask.has(QpAttrBit::state)) state_.store(attr.state, std::memory_order_relaxed);
  return changed;
}

}  // namespace client

uint32_t QueuePair::qpn() const { return impl_->qpn(); }
const QpCap& QueuePair::cap() const { return impl_->cap(); }
int QueuePair::post_send(const SendRequest& request) { return impl_->post_send(request); }
std::size_t QueuePair::post_send(std::span<const SendRequest> requests, int* error) {
  return impl_->post_send(requests, error);
}
int QueuePair::post_recv(const RecvRequest& request) { return impl_->post_recv(request); }
Result<void> QueuePair::modify(const QpAttr& attr, QpAttrMask mask) { return impl_->modify(attr, mask); }
Result<QpAttr> QueuePair::query() const { return impl_->query(); }

Result<void> QueuePair::attach_multicast(const Gid& group) { return impl_->attach_multicast(group); }
Result<void> QueuePair::detach_multicast(const Gid& group) { return impl_->detach_multicast(group); }

Result<void> QueuePair::start(uint32_t qkey, uint32_t psn) {
  using Bit = QpAttrBit;
  if (impl_->type() != QpType::ud) {
    return fail(EINVAL, fmt::format("QP {:#x} is no UD queue pair; use connect()", qpn()));
  }
  QpAttr attr;
  attr.qkey = qkey;
  attr.sq_psn = psn;
  attr.state = QpState::init;
  if (auto ok = modify(attr, Bit::state | Bit::pkey_index | Bit::port | Bit::qkey); !ok) return ok;
  attr.state = QpState::rtr;
  if (auto ok = modify(attr, Bit::state); !ok) return ok;
  attr.state = QpState::rts;
  return modify(attr, Bit::state | Bit::sq_psn);
}

Result<void> QueuePair::connect(const Peer& peer, const ConnectOptions& options) {
  using enum QpAttrBit;
  const QpType type = impl_->type();
  if (type == QpType::ud) return fail(EINVAL, fmt::format("QP {:#x} is a UD queue pair; use start()", qpn()));
  const auto of_rc = [type](QpAttrMask mask) { return type == QpType::rc ? mask : QpAttrMask(); };
  QpAttr attr;
  attr.state = QpState::init;
  attr.access = options.access;
  if (auto ok = modify(attr, state | pkey_index | port | access_flags); !ok) return ok;

  attr.state = QpState::rtr;
  attr.av.dgid = peer.gid;
  attr.av.sgid_index = options.sgid_index;
  attr.av.hop_limit = options.hop_limit;
  attr.av.traffic_class = options.traffic_class;
  attr.path_mtu = options.path_mtu;
  attr.dest_qpn = peer.qpn;
  attr.rq_psn = peer.psn;
  attr.max_dest_rd_atomic = options.max_dest_rd_atomic;
  attr.min_rnr_timer = options.min_rnr_timer;
  if (auto ok = modify(attr, state | av | path_mtu | dest_qpn | rq_psn | of_rc(max_dest_rd_atomic | min_rnr_timer));
      !ok) {
    return ok;
  }

  attr.state = QpState::rts;
  attr.sq_psn = options.psn;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_cnt;
  attr.rnr_retry = options.rnr_retry;
  attr.max_rd_atomic = options.max_rd_atomic;
  return modify(attr, state | sq_psn | of_rc(timeout | retry_cnt | rnr_retry | max_rd_atomic));
}

}  // namespace uroce
