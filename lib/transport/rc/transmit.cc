#include "transport/rc/transmit.h"

#include "transport/qp/work_queue.h"
#include "transport/rc/congestion.h"
#include "transport/rc/hello.h"
#include "transport/rc/requester.h"
#include "transport/rc/response_sender.h"

namespace uroce::transport {
namespace {

// Sends the control frames that are due, as far as there is room.
Outcome send_control_frames(Context& ctx, Qp& qp) {
  const auto due = [&](uint8_t frame) { return (qp.tx.control_frames & frame) != 0 && !ctx.builder.full(); };
  if (due(ControlFrame::kCnp)) send_cnp(ctx, qp);
  return due(ControlFrame::kHello) ? send_hello(ctx, qp) : Outcome{};
}

Outcome wake_if_more(const Transmitted& sent) { return sent.out | Outcome::wake_if(sent.more); }

// Are a request that was just posted, and an ACK, all that the engine has to send? Then the request is likely to be the
// application's answer to what the ACK is for, and the peer's application waits for it. With more in flight the peer
// may wait for the ACK instead. A request that completes a receive goes behind the ACK: programs count on the
// completion of their SEND before that of its answer, as perftest's ib_send_lat does with events.
bool answer_is_due(const Context& ctx, Qp& qp) {
  constexpr int32_t kInFlight = 1;
  if (!qp.rung || !ctx.alone || !qp.responses.reply_is_next()) return false;
  if (qp.responses.reply_kind() != wire::AethKind::ack || distance(qp.tx.next, qp.tx.una) > kInFlight) return false;
  const auto posted = lone_posted(qp);
  return posted && !takes_recv(*posted);
}

// Responses leave first, because the peer waits for them; then requests.
Outcome transmit_in_order(Context& ctx, Qp& qp) {
  if (qp.responses.empty()) return qp.state == QpState::rts && !has_unsent(qp) ? Outcome{} : transmit_requests(ctx, qp);
  Outcome out;
  if (answer_is_due(ctx, qp)) {
    const Psn first = qp.tx.sent;
    out = transmit_requests(ctx, qp);
    const bool answered = qp.tx.sent != first;
    if (answered) ctx.builder.end_burst();
    if (answered || out.failed()) return out | Outcome::wake();
  }
  if (qp.responses.has_jobs()) {
    const Transmitted responses = transmit_responses(ctx, qp);
    out |= wake_if_more(responses);
    if (responses.more || responses.out.failed()) return out;
  } else {
    if (ctx.builder.full()) return out | Outcome::wake();
    send_reply(ctx, qp);
  }
  if (qp.state == QpState::rts && !has_unsent(qp)) return out;
  return out | transmit_requests(ctx, qp);
}

// Requests and responses share the rate in turns.
Outcome transmit_paced(Context& ctx, Qp& qp) {
  if (!qp.cold->pacer.take_turn_for_requests()) return transmit_in_order(ctx, qp);
  const Outcome requests = transmit_requests(ctx, qp);
  if (requests.failed()) return requests | Outcome::wake_if(qp.responses.reply_pending());
  return requests | wake_if_more(transmit_responses(ctx, qp));
}

}  // namespace

Outcome transmit_rc(Context& ctx, Qp& qp) {
  if (qp.tx.control_frames == 0 && !qp.paced) [[likely]]
    return transmit_in_order(ctx, qp);
  Outcome out;
  if (qp.tx.control_frames != 0) {
    out = send_control_frames(ctx, qp);
    if (qp.tx.control_frames != 0) return out | Outcome::wake();
  }
  return out | (qp.paced ? transmit_paced(ctx, qp) : transmit_in_order(ctx, qp));
}

}  // namespace uroce::transport
