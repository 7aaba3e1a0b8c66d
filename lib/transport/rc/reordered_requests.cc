#include "transport/rc/reordered_requests.h"

#include "transport/rc/execute.h"
#include "transport/rc/reply.h"
#include "transport/rc/sack.h"

namespace uroce::transport {

Outcome buffer_request(Context& ctx, Qp& qp, const wire::Packet& packet) {
  ReorderBuffer& ahead = qp.tx.recovery->requests_ahead;
  const Psn psn = packet.bth.psn;
  const bool duplicate = ahead.has(psn, qp.rx.expected);
  note_arrival(ctx, qp, packet, duplicate);
  if (duplicate) {
    ctx.count_drop(wire::Drop::psn_duplicate);
  } else if (ahead.keep(ctx.frames, {qp.cold->user, packet.source()}, psn, qp.rx.expected,
                        wire::in_one_piece(packet, ctx.parked))) {
    qp.rx.has_reordered = true;
    ctx.counters.parked_packets.add();
  } else {
    ctx.count_drop(wire::Drop::parking_full);  // As if the network had lost it.
  }
  return queue_ack(qp, qp.rx.expected - 1);
}

Outcome execute_buffered(Context& ctx, Qp& qp, Psn closed) {
  auto& rx = qp.rx;
  ReorderBuffer& ahead = qp.tx.recovery->requests_ahead;
  Outcome out;
  Psn before = closed;
  while (!out.failed()) {
    // A READ takes several PSNs. Buffered frames with those PSNs belong to no request.
    ahead.drop(ctx.frames, before, rx.expected);
    before = rx.expected;
    const uint16_t number = ahead.take(ctx.frames, rx.expected);
    if (number == 0) break;
    // The ICRC was checked when it arrived.
    const auto packet = wire::parse(ctx.frames.frame(number), wire::Icrc::skip);
    if (packet) out |= execute_request(ctx, qp, *packet);
    ctx.frames.release(number);
    if (rx.expected == before) break;  // There was no receive for it; the peer must send it again.
  }
  rx.has_reordered = !ahead.empty();
  return out.failed() ? out : out | queue_ack(qp, rx.expected - 1);
}

}  // namespace uroce::transport
