#include "transport/rc/completer.h"

#include <algorithm>

#include "transport/qp/local_operation.h"
#include "transport/qp/send_window.h"
#include "transport/qp/work_queue.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/plain_requests.h"
#include "transport/rc/progress.h"
#include "transport/rc/response_placement.h"

namespace uroce::transport {
namespace {

// The shortcut for WRITEs and SENDs that are acknowledged whole: advance() without the branches of other requests.
[[gnu::always_inline]] inline void complete_acknowledged(Context& ctx, Qp& qp, Advance& done) {
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

// advance() is inlined for ACKs, one of which comes with each lone message.
[[gnu::always_inline]] inline Advance advance_inline(Context& ctx, Qp& qp) {
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

}  // namespace

Advance advance(Context& ctx, Qp& qp) { return advance_inline(ctx, qp); }

Outcome on_progress(Context& ctx, Qp& qp, Psn before) { return on_progress_inline(ctx, qp, before); }

Outcome acknowledge_until(Context& ctx, Qp& qp, Psn end) {
  const Psn before = qp.tx.una;
  if (distance(end, qp.tx.acked) > 0) qp.tx.acked = end;
  const Advance done = advance_inline(ctx, qp);
  if (!done.moved) return done.out;
  if (done.out.failed()) return done.out | Outcome::wake();
  return done.out | on_progress_inline(ctx, qp, before);
}

}  // namespace uroce::transport
