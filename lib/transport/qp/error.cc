#include "transport/qp/error.h"

#include "transport/qp/receive_queue.h"
#include "transport/qp/work_queue.h"

namespace uroce::transport {
namespace {

// The completion with the error's status comes first; then all sends and all receives are flushed.
Outcome enter_error(Context& ctx, Qp& qp, const Outcome& why) {
  if (qp.state == QpState::error || qp.state == QpState::reset) return {};
  qp.state = QpState::error;
  Outcome out = end_connection(ctx, qp);
  auto& tx = qp.tx;
  if (why.failure() == Failure::requester && tx.oldest != tx.sq.next()) {
    static_cast<void>(complete_oldest(ctx, qp, why.status()));  // An overrun adds nothing: it is in error already.
  }
  tx.deadline = kNever;
  tx.rnr_waiting = false;
  qp.rx.message = Recv::none;
  // 9.7.5.1.1: the responses to requests before the refused one still leave; the peer would take them for lost.
  if (why.failure() != Failure::responder) {
    qp.rx.has_jobs = false;
    qp.cold->replay.drop_jobs();
  }
  static_cast<void>(flush_posted(ctx, qp));
  if (qp.cold->srq != nullptr) ctx.events.on_async_event(AsyncEventType::last_wqe_reached, qp.qpn);
  return out;
}

// C11-39: a completion queue overrun is an affiliated error of the QPs that write to it. The queue takes no more
// completions; the flush happens when the QP is served next.
Outcome fail_for_overrun(Context& ctx, Qp& qp) {
  if (qp.state == QpState::error) return {};
  qp.state = QpState::error;
  ctx.events.on_async_event(AsyncEventType::qp_fatal, qp.qpn);
  return Outcome::wake();
}

// UC and UD: `status` completes the oldest WQE, the rest of the send queue is flushed, receiving goes on (SQE).
Outcome enter_send_queue_error(Context& ctx, Qp& qp, WcStatus status) {
  if (qp.state != QpState::rts && qp.state != QpState::sqd) return {};
  qp.state = QpState::sqe;
  Outcome out = complete_oldest(ctx, qp, status);
  out |= flush_sends(ctx, qp);
  return out;
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

Outcome flush_posted(Context& ctx, Qp& qp) {
  queues::RingHeader* receives = qp.cold->spec.rq.header;
  if (qp.rx.has_reordered) {
    qp.tx.recovery->requests_ahead.drop_all(ctx.frames);
    qp.rx.has_reordered = false;
  }
  // Posting a receive rings no doorbell, except in error: then it must be flushed.
  if (receives != nullptr) receives->wants_doorbell.store(1, std::memory_order_seq_cst);
  Outcome out = flush_sends(ctx, qp);
  out |= flush_receives(ctx, qp);
  return out;
}

Outcome end_connection(Context& ctx, Qp& qp) {
  qp.cold->pacer.stop();
  qp.tx.control_frames = 0;
  if (Recovery* r = qp.tx.recovery; r != nullptr) {
    r->requests_ahead.drop_all(ctx.frames);
    r->responses_ahead.drop_all(ctx.frames);
    r->discovery.stop();
    qp.rx.has_reordered = false;
    qp.selective = false;
    qp.tx.has_lost = false;
  }
  return Outcome::act(Outcome::kStopTimers);
}

}  // namespace uroce::transport
