#include <algorithm>
#include <array>
#include <cerrno>
#include <initializer_list>

#include <fmt/format.h>

#include "base/wr_opcodes.h"
#include "client/context_interface.h"
#include "client/queue_pair.h"

namespace uroce {

namespace client {

QpImpl::QpImpl(const ContextImpl& context, const QpParts& parts)
    : owner(&context),
      parts_(parts),
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

int QpImpl::post_all(std::span<const SendRequest> requests) {
  if (!may_send()) return refusal(EINVAL);
  for (const SendRequest& request : requests) {
    const int error = send_queue_.put(request);
    if (error == 0) continue;
    send_queue_.discard();
    return refusal(error);
  }
  if (send_queue_.commit()) wake();
  return 0;
}

Result<void> QpImpl::modify(std::span<const QueuePair::Step> steps) {
  auto changed = change(steps);
  if (changed) {
    note(steps);
  } else if (const auto now = query()) {
    note(now->state);  // the steps before the failed one took effect
  }
  return changed;
}

void QpImpl::note(std::span<const QueuePair::Step> steps) {
  for (const auto& [attr, mask] : steps) {
    if (mask.has(QpAttrBit::state)) note(attr.state);
  }
}

}  // namespace client

uint32_t QueuePair::qpn() const { return impl_->qpn(); }
const QpCap& QueuePair::cap() const { return impl_->cap(); }
int QueuePair::post_send(const SendRequest& request) { return impl_->post_send(request); }
std::size_t QueuePair::post_send(std::span<const SendRequest> requests, int* error) {
  return impl_->post_send(requests, error);
}
int QueuePair::post_all(std::span<const SendRequest> requests) { return impl_->post_all(requests); }
int QueuePair::post_recv(const RecvRequest& request) { return impl_->post_recv(request); }
Result<void> QueuePair::modify(const QpAttr& attr, QpAttrMask mask) {
  const Step step{attr, mask};
  return modify({&step, 1});
}
Result<void> QueuePair::modify(std::span<const Step> steps) { return impl_->modify(steps); }
Result<QpAttr> QueuePair::query() const { return impl_->query(); }
Result<void> QueuePair::attach_multicast(const Gid& group) { return impl_->attach_multicast(group); }
Result<void> QueuePair::detach_multicast(const Gid& group) { return impl_->detach_multicast(group); }

Result<FlowCounters> Flow::counters() const { return impl_->counters(); }

Result<Flow> QueuePair::create_flow(const FlowRule& rule) {
  const client::QpImpl* const alone = impl_.get();
  auto made = impl_->create_flow({&alone, 1}, rule, {});
  if (!made) return std::unexpected(made.error());
  return Flow(std::move(*made));
}

Result<void> QueuePair::start(uint32_t qkey, uint32_t psn) {
  using Bit = QpAttrBit;
  if (impl_->type() != QpType::ud) {
    return fail(EINVAL, fmt::format("QP {:#x} is not a UD queue pair; use connect()", qpn()));
  }
  const Step steps[] = {
      {{.state = QpState::init, .qkey = qkey}, Bit::state | Bit::pkey_index | Bit::port | Bit::qkey},
      {{.state = QpState::rtr}, Bit::state},
      {{.state = QpState::rts, .sq_psn = psn}, Bit::state | Bit::sq_psn},
  };
  return modify(steps);
}

Result<void> QueuePair::connect(const Peer& peer, const ConnectOptions& options) {
  using enum QpAttrBit;
  const QpType type = impl_->type();
  if (type == QpType::ud) return fail(EINVAL, fmt::format("QP {:#x} is a UD queue pair; use start()", qpn()));
  if (!has_peer(type)) return fail(EINVAL, fmt::format("QP {:#x} has no peer; use modify()", qpn()));
  const auto if_any = [type](std::initializer_list<QpType> types, QpAttrMask mask) {
    return std::ranges::find(types, type) != types.end() ? mask : QpAttrMask();
  };
  QpAttr attr;
  std::array<Step, 3> steps;
  attr.state = QpState::init;
  attr.access = options.access;
  steps[0] = {attr, state | pkey_index | port | access_flags};

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
  steps[1] = {attr, state | av | path_mtu | dest_qpn | rq_psn |
                        if_any({QpType::rc, QpType::xrc_target}, max_dest_rd_atomic | min_rnr_timer)};

  attr.state = QpState::rts;
  attr.sq_psn = options.psn;
  attr.timeout = options.timeout;
  attr.retry_cnt = options.retry_cnt;
  attr.rnr_retry = options.rnr_retry;
  attr.max_rd_atomic = options.max_rd_atomic;
  steps[2] = {attr, state | sq_psn | if_any({QpType::rc, QpType::xrc_initiator, QpType::xrc_target}, timeout) |
                        if_any({QpType::rc, QpType::xrc_initiator}, retry_cnt | rnr_retry | max_rd_atomic)};
  return modify(steps);
}

}  // namespace uroce
