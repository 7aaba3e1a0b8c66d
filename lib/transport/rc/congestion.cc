#include "transport/rc/congestion.h"

#include <cstring>

#include "transport/qp/peer_frame.h"
#include "transport/qp/seal.h"
#include "transport/qp/send_window.h"
#include "transport/rc/path.h"

namespace uroce::transport {

// --- Feedback -----------------------------------------------------------------------------------------------------

Outcome report_ack(Context& ctx, Qp& qp, Nanos rtt, uint32_t packets) {
  CongestionControl* control = qp.cold->congestion.get();
  if (control == nullptr) return {};
  control->on_ack({.now = ctx.now, .rtt = rtt, .packets = packets});
  update_window(ctx, qp);
  return leave_congested_path(ctx, qp);
}

void report_loss(const Context& ctx, Qp& qp) {
  CongestionControl* control = qp.cold->congestion.get();
  if (control != nullptr && qp.tx.recovery->loss.begin_loss_event(ctx.now)) control->on_loss(ctx.now);
}

void report_timeout(const Context& ctx, Qp& qp) {
  if (CongestionControl* control = qp.cold->congestion.get(); control != nullptr) control->on_timeout(ctx.now);
}

// --- Pacing -------------------------------------------------------------------------------------------------------

bool may_send_paced(const Context& ctx, Qp& qp) {
  CongestionControl* control = qp.cold->congestion.get();
  if (control != nullptr && ctx.now >= control->next_deadline()) control->on_timer(ctx.now);
  qp.paced = pace_of(qp) != 0;
  return !qp.paced || qp.cold->pacer.may_send(ctx.now);
}

void charge_paced(const Context& ctx, Qp& qp, const TxFrame& frame) {
  CongestionControl* control = qp.cold->congestion.get();
  const uint32_t bytes =
      frame.header_length + frame.payload_length + frame.pad + static_cast<uint32_t>(wire::kIcrcBytes);
  if (control != nullptr) control->on_sent(bytes, ctx.now);
  qp.cold->cnp.on_data();
  const uint64_t pace = pace_of(qp);
  qp.paced = pace != 0;
  if (qp.paced) qp.cold->pacer.charge(bytes, pace, ctx.now);
}

bool awaits_turn(const Qp& qp) {
  const auto& tx = qp.tx;
  if (!qp.paced || !qp.cold->pacing_timer.armed()) return false;
  if (tx.lost.any()) return true;
  const uint32_t at = tx.cursor.index();
  return at == tx.oldest && qp.slot(at).first_psn + tx.cursor.packet() == tx.una;
}

// --- Congestion notification packets ------------------------------------------------------------------------------

Outcome on_mark(Context& ctx, Qp& qp) {
  ctx.counters.ecn_marked_received.add();
  if (!qp.cold->cnp.on_mark(ctx.now, ctx.config.settings.congestion.dcqcn.cnp_interval_us)) return {};
  qp.tx.control_frames |= ControlFrame::kCnp;
  return Outcome::wake();
}

Outcome on_cnp(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (qp.selective && !is_sealed(qp, packet)) {
    ctx.count_drop(wire::Drop::seal);
    return {};
  }
  ctx.counters.cnps_received.add();
  CnpLimiter& cnp = qp.cold->cnp;
  cnp.on_received();
  CongestionControl* control = qp.cold->congestion.get();
  if (control == nullptr || !cnp.heed(ctx.now, ctx.config.settings.congestion.dcqcn.cnp_interval_us, qp.paced)) {
    ctx.counters.cnps_ignored.add();
    return {};
  }
  control->on_cnp(ctx.now);
  qp.paced = pace_of(qp) != 0;
  return leave_congested_path(ctx, qp);
}

void send_cnp(Context& ctx, Qp& qp) {
  TxFrame& frame = ctx.builder.next();
  std::memset(FrameBuilder::extended_headers(frame, *qp.route), 0, CnpLimiter::kReservedBytes);
  finish_to_peer(ctx.builder, frame, qp, wire::Opcode::cnp, Psn(0), CnpLimiter::kReservedBytes, {.becn = true});
  qp.tx.control_frames &= static_cast<uint8_t>(~ControlFrame::kCnp);
  ctx.counters.cnps_sent.add();
  qp.cold->cnp.on_sent();
}

}  // namespace uroce::transport
