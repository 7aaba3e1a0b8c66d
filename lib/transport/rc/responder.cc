#include "transport/rc/responder.h"

#include <algorithm>

#include "transport/core/guess.h"
#include "transport/qp/receive_queue.h"
#include "transport/qp/seal.h"
#include "transport/rc/execute.h"
#include "transport/rc/path.h"
#include "transport/rc/sack.h"

namespace uroce::transport {
namespace {

// Rare cases are not inlined: their registers would be saved for every packet.

// Where a request's PSN stands (9.7.4.1.2).
enum class Turn { next, ahead, duplicate };
Turn turn_of(const Qp& qp, Psn psn) {
  const int32_t ahead = distance(psn, qp.rx.expected);
  return ahead == 0 ? Turn::next : ahead > 0 ? Turn::ahead : Turn::duplicate;
}

// Is the request answered with a packet of its own, a READ response or an atomic ACK?
bool is_answered(const wire::Packet& packet) {
  return packet.op().flags.has_any(wire::Op::read | wire::Op::atomic | wire::Op::placement_flush |
                                   wire::Op::atomic_write);
}

// --- Duplicates: nothing is executed twice (9.7.5.1.2) ------------------------------------------------------------

// The PSN for the ACK of a duplicate SEND or WRITE at `psn`. The ACK covers everything executed (C9-105), but stops
// before the next READ, atomic, FLUSH or ATOMIC WRITE, because its response may be lost. Linux rxe takes an ACK with a
// READ's PSN for the response, and completes the READ without its data.
Psn acknowledged_with(const Qp& qp, Psn psn) {
  Psn newest = qp.rx.expected - 1;
  for (const Resource& resource : qp.cold->replay.resources()) {
    const bool between = distance(resource.first_psn, psn) > 0 && distance(newest, resource.first_psn) >= 0;
    if (resource.packets != 0 && between) newest = resource.first_psn - 1;
  }
  return newest;
}

const Resource* find_resource(const Qp& qp, Psn psn, bool atomic) {
  for (const Resource& resource : qp.cold->replay.resources()) {
    const int32_t offset = distance(psn, resource.first_psn);
    if (resource.packets != 0 && resource.atomic == atomic && offset >= 0 &&
        offset < static_cast<int32_t>(resource.packets)) {
      return &resource;
    }
  }
  return nullptr;
}

// Queues packets [next, end) of the response again.
Outcome replay(Qp& qp, const Resource& resource, uint32_t next, uint32_t end) {
  return Outcome::wake_if(qp.responses.queue_again(qp.cold->replay, resource, next, end));
}

// Queues the response to a duplicate READ or atomic. A duplicate whose result is gone is counted and dropped.
Outcome replay_response(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const Psn psn = packet.bth.psn;
  const bool atomic = packet.op().flags.has(wire::Op::atomic);
  const Resource* resource = find_resource(qp, psn, atomic);
  if (resource == nullptr) {
    ctx.count_drop(wire::Drop::resources_gone);
    return {};
  }
  if (atomic) return replay(qp, *resource, 0, 1);
  // FLUSH and ATOMIC WRITE are not run again: other requests may have written the same bytes since.
  if (packet.op().flags.has_any(wire::Op::placement_flush | wire::Op::atomic_write)) {
    if (resource->length == 0) return replay(qp, *resource, 0, 1);
    ctx.count_drop(wire::Drop::resources_gone);
    return {};
  }
  // 9.7.5.1.2: a duplicate READ may ask for a part of the original. Its address must agree with its PSN, and its length
  // must stay within the original.
  const uint32_t offset_packets = static_cast<uint32_t>(distance(psn, resource->first_psn));
  const uint64_t offset = uint64_t{offset_packets} << qp.mtu_shift;
  const wire::Reth& reth = packet.reth;
  if (reth.rkey != resource->rkey || reth.va != resource->va + offset || reth.length > resource->length - offset) {
    ctx.count_drop(wire::Drop::resources_gone);
    return {};
  }
  const uint32_t packets = qp.packets_of(reth.length);
  return replay(qp, *resource, offset_packets, offset_packets + packets);
}

// Does the peer, whose duplicate this is, go without our answers? The first one may just have been late.
bool hears_nothing(const Qp& qp, const wire::Packet& packet) {
  const uint8_t copy = wire::copy_of(packet.bth);
  return (copy > 1 || (copy == 1 && qp.tx.recovery->echo.duplicate)) && is_sealed(qp, packet);
}

// A request whose PSN was executed before: it is acknowledged again, or its response is sent again.
[[gnu::noinline]] Outcome on_duplicate(Context& ctx, Qp& qp, const wire::Packet& packet) {
  ctx.count_drop(wire::Drop::psn_duplicate);
  Outcome out;
  if (is_answered(packet)) {
    out = replay_response(ctx, qp, packet);
    if (!is_retransmitted(qp, packet)) return out;
  }
  return out | qp.responses.queue_ack(acknowledged_with(qp, packet.bth.psn));
}

// --- Requests of a uroce peer that arrive ahead of their turn: kept, reported in a SACK, executed in their turn -----

// Keeps a request that is ahead of its turn, and queues a SACK. One without the seal leaves no trace: a stranger need
// not hit the one PSN of the next packet to send it.
[[gnu::noinline]] Outcome buffer_request(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (!is_sealed(qp, packet)) {
    ctx.count_drop(wire::Drop::seal);
    return {};
  }
  ReorderBuffer& ahead = qp.tx.recovery->requests_ahead;
  const Psn psn = packet.bth.psn;
  const bool duplicate = ahead.has(psn, qp.rx.expected);
  note_arrival(ctx, qp, packet, duplicate);
  if (duplicate) {
    ctx.count_drop(wire::Drop::psn_duplicate);
  } else if (ahead.keep(ctx.frames, {qp.cold->user, packet.source()}, psn, qp.rx.expected,
                        wire::in_one_piece(packet, ctx.parked))) {
    qp.rx.message.set_later_wait(true);
    ctx.counters.parked_packets.add();
  } else {
    ctx.count_drop(wire::Drop::parking_full);  // As if the network had lost it.
  }
  return qp.responses.queue_ack(qp.rx.expected - 1);
}

// Executes the buffered requests that follow the one at `closed`, which has closed a gap.
[[gnu::noinline]] Outcome execute_buffered(Context& ctx, Qp& qp, Psn closed) {
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
  rx.message.set_later_wait(!ahead.empty());
  return out.failed() ? out : out | qp.responses.queue_ack(rx.expected - 1);
}

// --- Each request by its PSN --------------------------------------------------------------------------------------

bool may_receive(const Qp& qp) {
  return qp.state == QpState::rtr || qp.state == QpState::rts || qp.state == QpState::sqd;
}

// A request ahead of its turn. One NAK per gap, until the expected packet arrives.
Outcome on_gap(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (qp.selective) return buffer_request(ctx, qp, packet);
  ctx.count_drop(wire::Drop::psn_out_of_order);
  auto& rx = qp.rx;
  if (qp.responses.gap_told()) return {};
  return qp.responses.queue_gap_nak(rx.expected, wire::Aeth::nak(wire::NakCode::psn_sequence));
}

// A peer that sends a READ or an atomic again was not answered. It learns by a SACK behind the response which other
// requests came, as it learns by the ACK of a SEND or WRITE. `executed`: a failure has its own reply.
Outcome tell_all(const Context& ctx, Qp& qp, const wire::Packet& packet, const Outcome& executed) {
  if (executed.failed() || !is_answered(packet)) return {};
  note_arrival(ctx, qp, packet, false);
  return qp.responses.queue_ack(qp.rx.expected - 1);
}

Outcome on_next(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (qp.selective && packet.bth.ack_request) note_arrival(ctx, qp, packet, false);
  Outcome out = execute_request(ctx, qp, packet);
  if (is_retransmitted(qp, packet)) [[unlikely]]
    out |= tell_all(ctx, qp, packet, out);
  if (qp.rx.message.later_wait() && !out.failed()) out |= execute_buffered(ctx, qp, packet.bth.psn);
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
  if (!qp.selective) return on_duplicate(ctx, qp, packet);
  Outcome out;
  if (hears_nothing(qp, packet)) out = leave_dead_path(ctx, qp);
  note_arrival(ctx, qp, packet, !is_answered(packet));
  return out |= on_duplicate(ctx, qp, packet);
}

}  // namespace uroce::transport
