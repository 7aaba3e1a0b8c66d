#include "transport/datagram/unreliable_requester.h"

#include "transport/datagram/plain_datagrams.h"
#include "transport/datagram/raw_packet.h"
#include "transport/datagram/uc.h"
#include "transport/datagram/ud.h"
#include "transport/qp/local_operation.h"
#include "transport/qp/work_queue.h"

namespace uroce::transport {
namespace {

Attempt send_packet(Context& ctx, Qp& qp, SendSlot& slot) {
  if (slot.is_local()) {
    qp.tx.cursor.step(0, slot.packets);
    const LocalCompletions done = complete_local(ctx, qp);
    publish_completed(qp);
    return {.sent = !done.out.failed(), .out = done.out};
  }
  switch (qp.type) {
    case QpType::ud: return {.sent = send_datagram(ctx, qp, slot), .out = {}};
    case QpType::raw_packet: return {.sent = send_raw_frame(ctx, qp, slot), .out = {}};
    default: return {.sent = send_uc_packet(ctx, qp, slot), .out = {}};
  }
}

// Starts the request under the cursor. False: it must wait.
bool start(Context& ctx, Qp& qp, SendSlot& slot) {
  if (slot.started) return true;
  // A local operation that waits goes on after complete_sent().
  if (qp.state != QpState::rts || (slot.is_local() && !may_run_local_unreliable(qp))) return false;
  slot.started = true;
  slot.first_psn = qp.tx.next;
  qp.tx.next += slot.packets;
  if (slot.is_local() && slot.status == WcStatus::success) slot.status = run_local(ctx, qp, slot);
  return true;
}

}  // namespace

Outcome transmit_unreliable(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  if (qp.state == QpState::error || qp.state == QpState::sqe || qp.flushing) return Outcome::act(Outcome::kFlush);
  if (qp.state != QpState::rts && qp.state != QpState::sqd) return {};
  if (ctx.config.plain_path && qp.type == QpType::ud && qp.state == QpState::rts) transmit_plain_datagrams(ctx, qp);
  Outcome out;
  while (!ctx.builder.full()) {
    if (tx.cursor.index() == tx.sq.next() && (qp.state != QpState::rts || !fetch_wqe(ctx, qp))) break;
    SendSlot& slot = qp.slot(tx.cursor.index());
    if (!start(ctx, qp, slot)) break;
    Attempt attempt{.sent = false, .out = {}};
    if (slot.status == WcStatus::success) attempt = send_packet(ctx, qp, slot);
    out |= attempt.out;
    if (attempt.sent) continue;
    if (out.failed()) return out;
    // A request that is wrong fails in its turn, when all before it are complete.
    if (tx.cursor.index() == tx.oldest) return out | Outcome::fail(Failure::send_queue, slot.status);
    break;
  }
  if (tx.oldest != tx.cursor.index()) out |= Outcome::act(Outcome::kCompleteWhenSent);
  return out | Outcome::wake_if(ctx.builder.full());
}

Outcome complete_sent(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  Outcome out;
  while (tx.oldest != tx.cursor.index()) {
    // Without a completion, and nothing that waits for a response, there is no more to do.
    if (!qp.slot(tx.oldest).has(SendFlag::signaled) && !qp.signal_all) {
      ++tx.oldest;
    } else {
      out |= complete_oldest(ctx, qp, WcStatus::success);
    }
  }
  publish_completed(qp);
  if (!out.failed()) check_drained(ctx, qp);
  // A request behind those that are now complete may have waited for them.
  return out | Outcome::wake_if(tx.cursor.index() != tx.sq.next());
}

}  // namespace uroce::transport
