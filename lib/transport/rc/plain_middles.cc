#include "transport/rc/plain_middles.h"

#include <algorithm>

#include "transport/qp/inbound_write.h"
#include "transport/qp/memory_access.h"
#include "transport/qp/peer_frame.h"
#include "transport/qp/receive_queue.h"
#include "transport/rc/completer.h"
#include "transport/rc/plain_write.h"
#include "transport/rc/progress.h"
#include "transport/rc/request_packets.h"
#include "transport/rc/responder.h"
#include "transport/rc/response_receiver.h"

namespace uroce::transport {
namespace {

using wire::Opcode;

// How many packets in the middle of the message at the cursor may leave now, for the first time.
uint32_t sendable_middles(const Qp& qp, const SendSlot& slot) {
  const auto& tx = qp.tx;
  const uint32_t packet = tx.cursor.packet();
  const bool data = slot.is_write() || slot.takes_recv();
  if ((packet == 0 && !slot.as_onlies) || qp.type != QpType::rc || qp.paced || slot.num_sge != 1 || !data) return 0;
  if (slot.first_psn + packet != tx.sent) return 0;
  if (slot.takes_recv() && tx.credits.exceeds(slot.ssn)) return 0;
  const int32_t room = static_cast<int32_t>(tx.window) - distance(tx.sent, tx.una);
  if (room <= 0) return 0;
  return std::min(slot.packets - 1 - packet, static_cast<uint32_t>(room));
}

// Sends packets of one shape until `left` have left, the burst is full or the window has changed. Returns how many.
template <bool kOnlies>
uint32_t emit_alike(Context& ctx, Qp& qp, const SendSlot& slot, const std::byte* payload, uint32_t left) {
  auto& tx = qp.tx;
  const uint32_t mtu = qp.mtu();
  const Opcode middle = slot.is_write() ? Opcode::rc_write_middle : Opcode::rc_send_middle;
  wire::Reth reth{slot.remote_addr + (uint64_t{tx.cursor.packet()} << qp.mtu_shift), slot.rkey, mtu};
  const uint32_t interval = ack_request_interval(qp);
  PeerHeaders headers(ctx, qp, ctx.request_headers);
  uint32_t sent = 0;
  for (bool changed = false; left > 0 && !changed && !ctx.builder.full(); ++sent, --left) {
    const bool ack_request = ack_request_is_due(ctx, qp, interval);
    if (ack_request) note_ack_request(ctx, qp);
    TxFrame& frame = ctx.builder.next(payload + (std::size_t{sent} << qp.mtu_shift), mtu);
    std::byte* const extended =
        headers.write(frame, kOnlies ? Opcode::rc_write_only : middle, tx.sent, kOnlies ? wire::Reth::kBytes : 0,
                      {.ack_request = ack_request, .ecn = qp.ecn}, left > 1);
    if constexpr (kOnlies) {
      reth.store(extended);
      reth.va += mtu;
    }
    changed = add_new(ctx, qp, frame, tx.sent);
    ++tx.sent;
  }
  return sent;
}

// Inlined into both kinds of its one caller: the registers of a call would be saved for every packet.
[[gnu::always_inline]] inline bool place_middle(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const InboundMessage& message = qp.rx.message;
  if (packet.bth.opcode == Opcode::rc_send_middle) {
    if (message.kind() != InboundMessage::Kind::send || message.recv_num_sge() != 1) return false;
    return place_in_one(ctx, pd_of_recv(qp), qp.cold->recv_sges[0], message.bytes(), packet.payload);
  }
  if (message.kind() != InboundMessage::Kind::write || !message.fits_reth({}, qp.mtu())) return false;
  if (!qp.access.has(Access::remote_write)) return false;
  const auto place = next_write_place(ctx, qp, {}, qp.mtu(), {});
  if (place.result != memory::AccessResult::ok) return false;
  place_write(place, packet.payload);
  return true;
}

[[gnu::always_inline]] inline bool place_middle_response(Context& ctx, Qp& qp, const SendSlot& slot,
                                                         const wire::Packet& packet) {
  const int32_t index = distance(packet.bth.psn, slot.first_psn);
  const bool middle = index > 0 && static_cast<uint32_t>(index) + 1 < slot.packets;
  if (!slot.is_read() || !middle || slot.num_sge != 1 || packet.payload.size() != qp.mtu()) return false;
  return place_in_one(ctx, qp.pd, slot.sges()[0], static_cast<uint64_t>(index) << qp.mtu_shift, packet.payload);
}

Outcome on_other_write(Context& ctx, Qp& qp, const wire::Packet& packet) {
  ctx.hand.take(qp);
  return on_request(ctx, qp, packet);
}

}  // namespace

uint32_t transmit_alike(Context& ctx, Qp& qp, const SendSlot& slot) {
  const uint32_t left = sendable_middles(qp, slot);
  if (left == 0) return 0;
  const Sge& sge = slot.sges()[0];
  const uint64_t from = sge.addr + (uint64_t{qp.tx.cursor.packet()} << qp.mtu_shift);
  const auto place = translate(ctx, qp, sge.lkey, from, uint64_t{left} << qp.mtu_shift, {});
  if (place.result != memory::AccessResult::ok) return 0;
  const uint32_t sent = slot.as_onlies ? emit_alike<true>(ctx, qp, slot, place.host, left)
                                       : emit_alike<false>(ctx, qp, slot, place.host, left);
  qp.tx.cursor.step(sent, slot.packets);
  return sent;
}

template <Steps kSteps>
Outcome on_plain_middle(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  InboundMessage& message = rx.message;
  const auto length = static_cast<uint32_t>(packet.payload.size());
  const bool next = packet.bth.psn == rx.expected && length == qp.mtu() && !message.later_wait();
  const bool placed = next && place_middle(ctx, qp, packet);
  ctx.hand.take<kSteps>(qp);  // Until the payload is there nothing changes.
  if (!placed) [[unlikely]]
    return on_request(ctx, qp, packet);
  packet.bth.opcode == Opcode::rc_send_middle ? message.add_to_send(length) : message.add_to_write(length);
  qp.expect_next(1);
  return acknowledge_plain(ctx, qp, packet);
}

template <Steps kSteps>
Outcome on_plain_write_first(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  const wire::Reth& reth = packet.reth;
  const auto length = static_cast<uint32_t>(packet.payload.size());
  if (packet.bth.psn != rx.expected || !rx.message.idle() || length != qp.mtu()) return on_other_write(ctx, qp, packet);
  if (reth.length <= length || reth.length > kMaxMessage || !qp.access.has(Access::remote_write))
    return on_other_write(ctx, qp, packet);
  const auto place = translate(ctx, qp, reth.rkey, reth.va, reth.length, Access::remote_write);
  if (place.result != memory::AccessResult::ok) return on_other_write(ctx, qp, packet);
  place_write(place, packet.payload);
  ctx.hand.take<kSteps>(qp);  // Until the payload is there nothing changes.
  rx.message.begin_write(reth);
  rx.message.add_to_write(length);
  qp.expect_next(1);
  return acknowledge_plain(ctx, qp, packet);
}

template <Steps kSteps>
Outcome on_plain_write_last(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  InboundMessage& message = rx.message;
  const auto length = static_cast<uint32_t>(packet.payload.size());
  if (packet.bth.psn != rx.expected || length - 1 >= qp.mtu() || message.later_wait() || message.recv_in_use())
    return on_other_write(ctx, qp, packet);
  if (message.kind() != InboundMessage::Kind::write || !message.fits_reth(wire::Op::last, length) ||
      !qp.access.has(Access::remote_write))
    return on_other_write(ctx, qp, packet);
  const auto place = next_write_place(ctx, qp, {}, length, {});
  if (place.result != memory::AccessResult::ok) return on_other_write(ctx, qp, packet);
  place_write(place, packet.payload);
  ctx.hand.take<kSteps>(qp);  // Until the payload is there nothing changes.
  message.add_to_write(length);
  message.end();
  rx.count_message();
  qp.expect_next(1);
  return acknowledge_plain(ctx, qp, packet);
}

template <Steps kSteps>
Outcome on_plain_middle_response(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  const SendSlot* const slot = awaiting(qp, psn);
  const bool placed = slot != nullptr && place_middle_response(ctx, qp, *slot, packet);
  ctx.hand.take<kSteps>(qp);  // Until the payload is there nothing changes.
  if (!placed) [[unlikely]]
    return on_read_response(ctx, qp, packet);
  if (distance(slot->first_psn, tx.acked) > 0) tx.acked = slot->first_psn;
  ++tx.una;
  tx.recovery->loss.forget(psn, 1);
  return on_progress_inline(ctx, qp, psn);
}

template Outcome on_plain_write_first<Steps::unmarked>(Context&, Qp&, const wire::Packet&);
template Outcome on_plain_write_first<Steps::marked>(Context&, Qp&, const wire::Packet&);
template Outcome on_plain_write_last<Steps::unmarked>(Context&, Qp&, const wire::Packet&);
template Outcome on_plain_write_last<Steps::marked>(Context&, Qp&, const wire::Packet&);
template Outcome on_plain_middle<Steps::unmarked>(Context&, Qp&, const wire::Packet&);
template Outcome on_plain_middle<Steps::marked>(Context&, Qp&, const wire::Packet&);
template Outcome on_plain_middle_response<Steps::unmarked>(Context&, Qp&, const wire::Packet&);
template Outcome on_plain_middle_response<Steps::marked>(Context&, Qp&, const wire::Packet&);

}  // namespace uroce::transport
