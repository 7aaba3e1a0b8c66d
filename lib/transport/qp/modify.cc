#include "transport/qp/modify.h"

#include <algorithm>

#include "base/wr_opcodes.h"
#include "transport/qp/error.h"
#include "transport/qp/receive_queue.h"
#include "transport/qp/send_window.h"
#include "transport/qp/work_queue.h"
#include "transport/qp/xrc.h"

namespace uroce::transport {
namespace {

void set_send_psn(Qp& qp, Psn psn) {
  qp.tx.una = qp.tx.acked = qp.tx.next = qp.tx.sent = psn;
  if (Recovery* r = qp.tx.recovery; r != nullptr) {
    r->loss.begin_at(psn);
    r->responses.begin_at(psn);
  }
}

Retransmission retransmission_of(const Context& ctx, const Qp& qp) {
  const Retransmission own = qp.cold->spec.retransmission;
  return own == Retransmission::device_default ? ctx.config.settings.retransmission : own;
}

// At RTR the connection begins, and with it peer discovery.
Outcome begin_connection(Context& ctx, Qp& qp) {
  if (!is_reliable(qp.type)) return {};
  Recovery& r = *qp.tx.recovery;
  r.reset(ctx.config.window_packets);
  update_window(ctx, qp);
  const Retransmission setting = retransmission_of(ctx, qp);
  qp.discovers = setting != Retransmission::go_back_n && !qp.loopback;
  if (!qp.discovers) return {};
  r.discovery.begin(setting, static_cast<uint32_t>(ctx.epochs.next()) | 1);
  qp.tx.control_frames |= ControlFrame::kHello;
  return Outcome::wake();
}

// The newest packet may have left without an ACK request, because more packets were to follow. In SQD none follows, so
// it is sent again with an ACK request.
Outcome ask_for_ack(Qp& qp) {
  const auto& tx = qp.tx;
  if (tx.una == tx.sent) return {};
  const Psn newest = tx.sent - 1;
  for (uint32_t index = tx.oldest; index != tx.sq.next(); ++index) {
    const SendSlot& slot = qp.slot(index);
    if (distance(newest, slot.end_psn()) >= 0) continue;
    if (slot.has_response()) return {};  // Its response is its acknowledgement.
    rewind_to(qp, newest);
    return Outcome::wake();
  }
  return {};
}

void describe_recovery(const Recovery& r, bool selective, QpTransportStatus& status) {
  const RetransmissionCounts& counts = r.loss.counts();
  status.recovery = selective              ? Retransmission::selective
                    : r.discovery.asking() ? Retransmission::automatic
                                           : Retransmission::go_back_n;
  if (r.loss.rtt().known()) status.srtt = r.loss.rtt().smoothed();
  status.retransmitted = {.fast = counts.of(Cause::hole),
                          .probe = counts.of(Cause::probe),
                          .timeout = counts.of(Cause::timeout),
                          .nak = counts.of(Cause::nak)};
  status.parked = r.requests_ahead.count();
}

void describe_work(const Qp& qp, Nanos now, QpTransportStatus& status) {
  const auto& tx = qp.tx;
  if (qp.cold->spec.sq.header != nullptr) status.sends_posted = tx.sq.next() - tx.oldest + tx.sq.available();
  if (qp.cold->spec.rq.entries != 0) status.recvs_posted = qp.rx.rq.available();
  status.in_flight = static_cast<uint32_t>(std::max(distance(tx.sent, tx.una), 0));
  status.retries_left = tx.retries.left();
  status.rnr_retries_left = tx.retries.rnr_left();
  if (tx.deadline != kNever) status.timer = std::max(tx.deadline - now, Nanos{0});
}

}  // namespace

void apply_attributes(Context& ctx, Qp& qp, const QpAttr& attr, QpAttrMask mask) {
  QpAttr& now = qp.cold->attr;
  const auto set = [&](QpAttrBit bit, auto QpAttr::* member) {
    if (mask.has(bit)) now.*member = attr.*member;
  };
  set(QpAttrBit::en_sqd_async_notify, &QpAttr::en_sqd_async_notify);
  set(QpAttrBit::access_flags, &QpAttr::access);
  set(QpAttrBit::pkey_index, &QpAttr::pkey_index);
  set(QpAttrBit::port, &QpAttr::port);
  set(QpAttrBit::qkey, &QpAttr::qkey);
  set(QpAttrBit::av, &QpAttr::av);
  set(QpAttrBit::path_mtu, &QpAttr::path_mtu);
  set(QpAttrBit::timeout, &QpAttr::timeout);
  set(QpAttrBit::retry_cnt, &QpAttr::retry_cnt);
  set(QpAttrBit::rnr_retry, &QpAttr::rnr_retry);
  set(QpAttrBit::max_rd_atomic, &QpAttr::max_rd_atomic);
  set(QpAttrBit::min_rnr_timer, &QpAttr::min_rnr_timer);
  set(QpAttrBit::max_dest_rd_atomic, &QpAttr::max_dest_rd_atomic);
  set(QpAttrBit::dest_qpn, &QpAttr::dest_qpn);
  set(QpAttrBit::rate_limit, &QpAttr::rate_limit);
  if (mask.has(QpAttrBit::rq_psn)) qp.rx.expected = Psn(attr.rq_psn);
  set(QpAttrBit::sq_psn, &QpAttr::sq_psn);
  if (mask.has(QpAttrBit::sq_psn)) set_send_psn(qp, Psn(attr.sq_psn));
  qp.pkey = ctx.config.pkey;
  qp.access = now.access;
  qp.dest_qpn = now.dest_qpn;
  // A datagram has the port's MTU, as it has no path of its own (10.2.2.2).
  const Mtu mtu = !has_peer(qp.type) ? ctx.config.port_mtu : now.path_mtu;
  qp.mtu_shift = static_cast<uint8_t>(7 + static_cast<uint32_t>(mtu));
  qp.timeout = now.timeout;
  qp.retry_cnt = now.retry_cnt;
  qp.rnr_retry = now.rnr_retry;
  qp.min_rnr_timer = now.min_rnr_timer;
  qp.max_rd_atomic = now.max_rd_atomic;
  if (mask.has(QpAttrBit::max_dest_rd_atomic)) qp.responses.resize(qp.cold->replay, now.max_dest_rd_atomic);
  if (mask.has(QpAttrBit::path_mtu) && is_reliable(qp.type)) choose_congestion_control(ctx, qp);
  if (qp.tx.recovery != nullptr) update_window(ctx, qp);
  qp.paced = pace_of(qp) != 0;
  qp.tx.retries.refill(qp.retry_cnt, qp.rnr_retry);
  // This is a new peer. Later it may have asked for another port, in a HELLO.
  if (mask.has_any(QpAttrMask(QpAttrBit::av) | QpAttrBit::dest_qpn)) {
    qp.udp_source = wire::udp_source_port(now.av.flow_label, qp.qpn, qp.dest_qpn);
  }
}

Outcome apply_state(Context& ctx, Qp& qp, QpState state) {
  switch (state) {
    case QpState::reset: {
      const Outcome out = end_connection(ctx, qp);
      if (qp.type == QpType::xrc_target) abandon_srq(qp);
      forget_recv_in_use(qp);
      reset_qp(qp);
      return out;
    }
    case QpState::rtr: qp.state = state; return begin_connection(ctx, qp);
    case QpState::error: return Outcome::fail(Failure::plain);
    case QpState::sqd: {
      qp.state = state;
      qp.cold->sq_drained_reported = false;
      const Outcome out = ask_for_ack(qp);
      check_drained(ctx, qp);
      return out;
    }
    default: {
      if (qp.flushing) qp.cold->flush_until = qp.tx.sq.next() + qp.tx.sq.available();
      qp.state = state;
      // Wake the QP only when work requests wait.
      const auto& tx = qp.tx;
      const bool waiting = tx.cursor.index() != tx.sq.next() || tx.sq.available() != 0;
      return Outcome::wake_if(state == QpState::rts && waiting);
    }
  }
}

QpAttr query_attributes(const Qp& qp) {
  QpAttr attr = qp.cold->attr;
  attr.state = attr.cur_state = qp.state;
  attr.sq_psn = qp.tx.next.value();
  attr.rq_psn = qp.rx.expected.value();
  return attr;
}

QpTransportStatus query_status(const Qp& qp, Nanos now) {
  const QpCold& cold = *qp.cold;
  QpTransportStatus status;
  describe_work(qp, now, status);
  status.congestion = cold.algorithm;
  status.window = qp.tx.window;
  status.cnps_sent = cold.cnp.sent();
  status.cnps_received = cold.cnp.received();
  status.path_changes = cold.path_changes;
  if (cold.recovery != nullptr) describe_recovery(*cold.recovery, qp.selective, status);
  status.rate_bps = pace_of(qp);
  if (cold.congestion == nullptr) return status;
  cold.congestion->on_timer(now);
  status.rate_bps = pace_of(qp);
  status.window = std::min(status.window, cold.congestion->window());
  return status;
}

}  // namespace uroce::transport
