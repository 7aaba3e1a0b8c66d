#include "transport/rc/congestion_feedback.h"

#include "transport/qp/send_window.h"

namespace uroce::transport {

void report_new_ack(const Context& ctx, Qp& qp, Nanos rtt, uint32_t packets) {
  CongestionControl* control = qp.cold->congestion.get();
  if (control == nullptr) return;
  control->on_ack({.now = ctx.now, .rtt = rtt, .packets = packets});
  update_window(ctx, qp);
}

void report_loss(const Context& ctx, Qp& qp) {
  CongestionControl* control = qp.cold->congestion.get();
  if (control != nullptr && qp.tx.recovery->loss.begin_loss_event(ctx.now)) control->on_loss(ctx.now);
}

void report_timeout(const Context& ctx, Qp& qp) {
  if (CongestionControl* control = qp.cold->congestion.get(); control != nullptr) control->on_timeout(ctx.now);
}

}  // namespace uroce::transport
