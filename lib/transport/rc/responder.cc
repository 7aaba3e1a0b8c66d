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

Outcome on_next(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (qp.selective && packet.bth.ack_request) note_arrival(ctx, qp, packet, false);
  Outcome out = execute_request(ctx, qp, packet);
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
  if (qp.selective) note_arrival(ctx, qp, packet, true);
  return on_duplicate(ctx, qp, packet);
}

}  // namespace uroce::transport
