// The work that follows each acknowledgement. It is inlined where one comes with each message.
#pragma once

#include <algorithm>

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"
#include "transport/qp/send_window.h"
#include "transport/qp/work_queue.h"
#include "transport/rc/ack_timer.h"

namespace uroce::transport {

// A cursor that was moved back skips packets that have been acknowledged since.
inline void skip_acknowledged(Qp& qp) {
  auto& tx = qp.tx;
  if (static_cast<int32_t>(tx.cursor.index() - tx.oldest) < 0) tx.cursor.move_to(tx.oldest);
  if (tx.cursor.index() != tx.oldest || tx.oldest == tx.sq.next()) return;
  const SendSlot& slot = qp.slot(tx.oldest);
  if (!slot.started) return;
  const int32_t acked = distance(tx.una, slot.first_psn);
  if (acked > 0) tx.cursor.skip_to_packet(static_cast<uint32_t>(acked));
}

/// Does what on_progress() does (rc/completer.h).
[[gnu::always_inline]] inline Outcome on_progress_inline(Context& ctx, Qp& qp, Psn before) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  const uint32_t packets = static_cast<uint32_t>(distance(tx.una, before));
  const bool restricted = r.short_of_memory | r.loss.marked() | qp.paced;
  const bool same_window = r.open_window == ctx.config.window_packets && !restricted;
  r.open_window = std::min(ctx.config.window_packets, r.open_window + packets);
  r.probe.on_progress(ctx.now);
  if (tx.una == tx.sent) end_flight(ctx, qp);
  if (!same_window) update_window(ctx, qp);
  tx.retries.refill(qp.retry_cnt, qp.rnr_retry);
  skip_acknowledged(qp);
  // Its turn comes anyway where it waits for one.
  Outcome out = Outcome::wake_if(!qp.on_run_queue && has_unsent(qp));
  if (!tx.rnr_waiting) out |= arm_ack_timer(ctx, qp);
  publish_completed(qp);
  check_drained(ctx, qp);
  return out;
}

}  // namespace uroce::transport
