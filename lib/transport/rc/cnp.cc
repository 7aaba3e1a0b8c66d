#include "transport/rc/cnp.h"

#include <cstring>

#include "transport/qp/peer_frame.h"
#include "transport/qp/send_window.h"

namespace uroce::transport {

Outcome on_mark(Context& ctx, Qp& qp) {
  ctx.counters.ecn_marked_received.add();
  if (!qp.cold->cnp.on_mark(ctx.now, ctx.config.congestion.dcqcn.cnp_interval_us)) return {};
  qp.tx.control_frames |= ControlFrame::kCnp;
  return Outcome::wake();
}

void on_cnp(Context& ctx, Qp& qp) {
  ctx.counters.cnps_received.add();
  CnpLimiter& cnp = qp.cold->cnp;
  cnp.on_received();
  CongestionControl* control = qp.cold->congestion.get();
  if (control == nullptr || !cnp.heed(ctx.now, ctx.config.congestion.dcqcn.cnp_interval_us)) {
    ctx.counters.cnps_ignored.add();
    return;
  }
  control->on_cnp(ctx.now);
  qp.paced = pace_of(qp) != 0;
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
