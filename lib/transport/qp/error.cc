#include "transport/qp/error.h"

#include <algorithm>

#include "transport/qp/receive_queue.h"
#include "transport/qp/send_window.h"
#include "transport/qp/work_queue.h"
#include "transport/qp/xrc.h"

namespace uroce::transport {
namespace {

// The completion with the error's status comes first; then all sends and all receives are flushed.
Outcome enter_error(Context& ctx, Qp& qp, const Outcome& why) {
  if (qp.state == QpState::error || qp.state == QpState::reset) return {};
  qp.state = QpState::error;
  Outcome out = end_connection(ctx, qp) | Outcome::act(Outcome::kFlush);
  auto& tx = qp.tx;
  if (why.failure() == Failure::requester && tx.oldest != tx.sq.next()) {
    static_cast<void>(complete_oldest(ctx, qp, why.status()));  // An overrun adds nothing: it is in error already.
  }
  tx.deadline = kNever;
  tx.rnr_waiting = false;
  qp.rx.message.end();
  // 9.7.5.1.1: the responses to requests before the refused one still leave; the peer would take them for lost.
  if (why.failure() != Failure::responder) qp.responses.drop_jobs(qp.cold->replay);
  // The last receive that it takes from a shared queue completes before the event says so.
  if (qp.cold->srq == nullptr) return out;
  static_cast<void>(flush_recv_in_use(ctx, qp));
  if (qp.type == QpType::xrc_target) {
    return_srq(qp);
    return out;  // Its queue serves the whole domain.
  }
  ctx.events.on_async_event(AsyncEventType::last_wqe_reached, qp.qpn);
  return out;
}

// C11-39: a completion queue overrun is an affiliated error of the QPs that write to it. The queue takes no more
// completions.
Outcome fail_for_overrun(Context& ctx, Qp& qp) {
  if (qp.state == QpState::error) return {};
  qp.state = QpState::error;
  ctx.events.on_async_event(AsyncEventType::qp_fatal, qp.qpn);
  return Outcome::wake() | Outcome::act(Outcome::kFlush);
}

// UC and UD: `status` completes the oldest WQE, the rest of the send queue is flushed, receiving goes on (SQE).
Outcome enter_send_queue_error(Context& ctx, Qp& qp, WcStatus status) {
  if (qp.state != QpState::rts && qp.state != QpState::sqd) return {};
  qp.state = QpState::sqe;
  qp.flushing = true;
  return complete_oldest(ctx, qp, status) | Outcome::act(Outcome::kFlush);
}

// Once SQE was left, those that stood in the queue then.
uint32_t sends_to_flush(const Qp& qp) {
  const auto& tx = qp.tx;
  const uint32_t fetched = tx.sq.next() - tx.oldest;
  const uint32_t posted = fetched + tx.sq.available();
  const bool all = qp.state == QpState::error || qp.state == QpState::sqe;
  return all ? posted : std::min(posted, qp.cold->flush_until - tx.oldest);
}

}  // namespace

Outcome stop_qp(Context& ctx, Qp& qp, const Outcome& why) {
  switch (why.failure()) {
    case Failure::none: return {};
    case Failure::cq_overrun: return fail_for_overrun(ctx, qp);
    case Failure::send_queue: return enter_send_queue_error(ctx, qp, why.status());
    default: return enter_error(ctx, qp, why);
  }
}

Flushed flush_posted(Context& ctx, Qp& qp, uint32_t most) {
  const bool in_error = qp.state == QpState::error;
  if (qp.rx.message.later_wait() && in_error) {
    qp.tx.recovery->requests_ahead.drop_all(ctx.frames);
    qp.rx.message.set_later_wait(false);
  }
  if (!in_error && !qp.flushing && qp.state != QpState::sqe) return {};
  Flushed done;
  const uint32_t sends = sends_to_flush(qp);
  done.work_requests = std::min(sends, most);
  done.out = flush_sends(ctx, qp, done.work_requests);
  if (sends > most) return {.more = true, .work_requests = most, .out = done.out};
  if (!in_error) {
    qp.flushing = false;
    done.out |= Outcome::wake_if(qp.state == QpState::rts);
    return done;
  }
  queues::RingHeader* receives = qp.cold->spec.rq.header;
  // Posting a receive rings no doorbell, except in error: then it must be flushed.
  if (receives != nullptr) receives->wants_doorbell.store(1, std::memory_order_seq_cst);
  const uint32_t left = most - done.work_requests;
  const uint32_t flushed = flush_receives(ctx, qp, left);
  done.work_requests += flushed;
  done.more = flushed == left;
  done.out = {};  // An overrun adds nothing: the QP is in error already.
  return done;
}

// An engine gives a slot back when its request completes.
void resume_from_rings(Context& ctx, Qp& qp) {
  const QpSpec& spec = qp.cold->spec;
  const auto at_consumer = [](const queues::RingPlace& ring) {
    return queues::RingConsumer(ring, ring.header->consumer.load(std::memory_order_acquire));
  };
  auto& tx = qp.tx;
  if (spec.sq.header != nullptr) tx.sq = at_consumer(spec.sq);
  tx.oldest = tx.sq.next();
  tx.cursor = SendCursor(tx.oldest);
  if (spec.rq.header != nullptr) qp.rx.rq = at_consumer(spec.rq);
  qp.state = QpState::rts;
  const queues::HeldRecv* held = spec.held_recv;
  if (held == nullptr || held->held.load(std::memory_order_acquire) == 0) return;
  qp.cold->recv_wr_id = held->wr_id.load(std::memory_order_relaxed);
  static_cast<void>(complete_recv_with_error(ctx, qp, WcStatus::flushed));  // An overrun adds nothing.
}

Outcome end_connection(Context& ctx, Qp& qp) {
  qp.cold->pacer.stop();
  qp.tx.control_frames = 0;
  if (Recovery* r = qp.tx.recovery; r != nullptr) {
    r->requests_ahead.drop_all(ctx.frames);
    r->responses_ahead.drop_all(ctx.frames);
    r->discovery.stop();
    give_back_block(ctx, qp);
    qp.rx.message.set_later_wait(false);
    qp.end_selective();
    qp.tx.lost.forget(r->loss);
  }
  return Outcome::act(Outcome::kStopTimers);
}

}  // namespace uroce::transport
