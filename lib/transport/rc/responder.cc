#include "transport/rc/responder.h"

#include "transport/core/guess.h"
#include "transport/qp/receive_queue.h"
#include "transport/rc/duplicate.h"
#include "transport/rc/execute.h"
#include "transport/rc/reordered_requests.h"
#include "transport/rc/reply.h"
#include "transport/rc/sack.h"

namespace uroce::transport {
namespace {

bool may_receive(const Qp& qp) {
  return qp.state == QpState::rtr || qp.state == QpState::rts || qp.state == QpState::sqd;
}

// A request ahead of its turn. One NAK per gap, until the expected packet arrives.
Outcome on_gap(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (qp.selective) return buffer_request(ctx, qp, packet);
  ctx.count_drop(wire::Drop::psn_out_of_order);
  if (qp.rx.nak_sent) return {};
  qp.rx.nak_sent = true;
  return queue_reply(qp, qp.rx.expected, wire::Aeth::nak(wire::NakCode::psn_sequence));
}

// A peer that sends a READ or an atomic again was not answered. It learns by a SACK behind the response which other
// requests came, as it learns by the ACK of a SEND or WRITE. `executed`: a failure has its own reply.
Outcome tell_all(const Context& ctx, Qp& qp, const wire::Packet& packet, const Outcome& executed) {
  if (executed.failed() || !is_answered(packet)) return {};
  note_arrival(ctx, qp, packet, false);
  return queue_ack(qp, qp.rx.expected - 1);
}

Outcome on_next(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (qp.selective && packet.bth.ack_request) note_arrival(ctx, qp, packet, false);
  Outcome out = execute_request(ctx, qp, packet);
  if (is_retransmitted(qp, packet)) [[unlikely]]
    out |= tell_all(ctx, qp, packet, out);
  if (qp.rx.has_reordered && !out.failed()) out |= execute_buffered(ctx, qp, packet.bth.psn);
  publish_recv_in_use(qp);
  return out;
}

}  // namespace

Outcome on_request(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (!may_receive(qp)) {
    ctx.count_drop(wire::Drop::qp_state);
    return {};
  }
  report_established(ctx, qp);
  const Turn turn = turn_of(qp, packet.bth.psn);
  if (turn == Turn::next) return on_next(ctx, qp, packet);
  count_if_psn_is_guessed(ctx, packet, qp.rx.expected);
  if (turn == Turn::ahead) return on_gap(ctx, qp, packet);
  if (qp.selective) note_arrival(ctx, qp, packet, !is_answered(packet));
  return on_duplicate(ctx, qp, packet);
}

}  // namespace uroce::transport
