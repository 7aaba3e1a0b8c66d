#include "transport/rc/completer.h"

#include <algorithm>

#include "transport/qp/local_operation.h"
#include "transport/qp/send_window.h"
#include "transport/qp/work_queue.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/plain_requests.h"
#include "transport/rc/response_placement.h"

namespace uroce::transport {
namespace {

// A cursor that was moved back skips packets that have been acknowledged since.
void skip_acknowledged(Qp& qp) {
  auto& tx = qp.tx;
  if (static_cast<int32_t>(tx.cursor.index() - tx.oldest) < 0) tx.cursor.move_to(tx.oldest);
  if (tx.cursor.index() != tx.oldest || tx.oldest == tx.sq.next()) return;
  const SendSlot& slot = qp.slot(tx.oldest);
  if (!slot.started) return;
  const int32_t acked = distance(tx.una, slot.first_psn);
  if (acked > 0) tx.cursor.skip_to_packet(static_cast<uint32_t>(acked));
}

// The shortcut for WRITEs and SENDs that are acknowledged whole: advance() without the branches of other requests.
void complete_acknowledged(Context& ctx, Qp& qp, Advance& done) {
  auto& tx = qp.tx;
  while (tx.oldest != tx.sq.next()) {
    const SendSlot& slot = qp.slot(tx.oldest);
    if (!is_plain_opcode(slot.opcode) || !slot.started || distance(tx.acked, slot.end_psn()) < 0) return;
    tx.una = slot.end_psn();
    done.moved = true;
    if (slot.has(SendFlag::signaled) || qp.signal_all) {
      done.out |= complete_oldest(ctx, qp, WcStatus::success);
    } else {
      ++tx.oldest;
    }
  }
}

}  // namespace

Advance advance(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  const Psn before = tx.una;
  // Otherwise no response may have come early, and the tracker's cache line is left alone.
  const bool asked = tx.rd_atomic != 0;
  Advance done;
  if (ctx.config.plain_path) complete_acknowledged(ctx, qp, done);
  while (tx.oldest != tx.sq.next()) {
    SendSlot& slot = qp.slot(tx.oldest);
    if (!slot.started) break;
    if (slot.is_local()) [[unlikely]] {
      const LocalCompletions local = complete_local(ctx, qp);
      if (!local.any) break;  // It failed. The requester fails the QP with its status.
      done.moved = true;
      done.out |= local.out;
      continue;
    }
    if (slot.has_response()) {
      if (!r.responses_ahead.empty()) {
        const WcStatus placed = place_buffered(ctx, qp, slot);
        if (placed != WcStatus::success) return {true, done.out | Outcome::fail(Failure::requester, placed)};
      }
      const auto left = std::min(static_cast<uint32_t>(distance(slot.end_psn(), tx.una)), PsnSet::kSize);
      tx.una += r.responses.arrived_from(tx.una, left);
    } else {
      const Psn end = distance(tx.acked, slot.end_psn()) < 0 ? tx.acked : slot.end_psn();
      if (distance(end, tx.una) > 0) tx.una = end;
    }
    if (tx.una != slot.end_psn()) break;
    done.moved = true;
    done.out |= complete_oldest(ctx, qp, WcStatus::success);
  }
  const uint32_t passed = static_cast<uint32_t>(distance(tx.una, before));
  if (passed > 0) {
    r.loss.forget(before, passed);
    if (asked) r.responses.forget(before, passed);
    done.moved = true;
  }
  return done;
}

Outcome on_progress(Context& ctx, Qp& qp, Psn before) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  const uint32_t packets = static_cast<uint32_t>(distance(tx.una, before));
  const bool full = r.open_window == ctx.config.window_packets && !r.short_of_memory;
  const bool same_window = full && !r.loss.marked() && !qp.paced;
  r.open_window = std::min(ctx.config.window_packets, r.open_window + packets);
  r.probe.on_progress(ctx.now);
  if (tx.una == tx.sent) end_flight(ctx, qp);
  if (!same_window) update_window(ctx, qp);
  tx.retries.refill(qp.retry_cnt, qp.rnr_retry);
  skip_acknowledged(qp);
  Outcome out = Outcome::wake_if(has_unsent(qp));
  if (!tx.rnr_waiting) out |= arm_ack_timer(ctx, qp);
  publish_completed(qp);
  check_drained(ctx, qp);
  return out;
}

Outcome acknowledge_until(Context& ctx, Qp& qp, Psn end) {
  const Psn before = qp.tx.una;
  if (distance(end, qp.tx.acked) > 0) qp.tx.acked = end;
  const Advance done = advance(ctx, qp);
  if (!done.moved) return done.out;
  if (done.out.failed()) return done.out | Outcome::wake();
  return done.out | on_progress(ctx, qp, before);
}

}  // namespace uroce::transport
