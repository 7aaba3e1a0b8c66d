#include "transport/rc/pacing.h"

#include "transport/qp/send_window.h"

namespace uroce::transport {

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
  const uint64_t pace = pace_of(qp);
  qp.paced = pace != 0;
  if (qp.paced) qp.cold->pacer.charge(bytes, pace, ctx.now);
}

bool awaits_turn(const Qp& qp) {
  const auto& tx = qp.tx;
  if (!qp.paced || !qp.cold->pacing_timer.armed()) return false;
  if (tx.has_lost) return true;
  const uint32_t at = tx.cursor.index();
  return at == tx.oldest && qp.slot(at).first_psn + tx.cursor.packet() == tx.una;
}

}  // namespace uroce::transport
