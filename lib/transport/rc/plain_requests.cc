#include "transport/rc/plain_requests.h"

#include "transport/qp/memory_access.h"
#include "transport/qp/peer_frame.h"
#include "transport/qp/plain_wqe.h"
#include "transport/qp/send_window.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/request_packets.h"

namespace uroce::transport {
namespace {

// Packets that may still be sent; negative after the window became smaller.
int32_t room_in_window(const Qp& qp) {
  const auto& tx = qp.tx;
  return static_cast<int32_t>(tx.window) - distance(tx.next, tx.una);
}

// `last`: none follows in this turn. Returns whether the window may have changed.
[[gnu::always_inline]] inline bool emit(Context& ctx, Qp& qp, PeerHeaders& headers, const SendSlot& slot,
                                        const std::byte* payload, wire::Opcode opcode, bool ack_request, bool last) {
  const Psn psn = slot.first_psn;
  TxFrame& frame = ctx.builder.next(payload, slot.length);
  // Behind a SEND's headers these bytes are not sent.
  wire::Reth{slot.remote_addr, slot.rkey, slot.length}.store(
      headers.write(frame, opcode, psn, opcode == wire::Opcode::rc_send_only ? 0 : wire::Reth::kBytes,
                    {.ack_request = ack_request, .ecn = qp.ecn}, !last));
  return add_new(ctx, qp, frame, psn);
}

// As transmit_plain_requests(), for the only request that is posted: it asks for an ACK.
Outcome transmit_lone(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  const PlainWqe wqe(tx.sq.slot());
  if (!wqe.is_plain(qp.mtu()) || room_in_window(qp) <= 0 || ctx.builder.full()) return {};
  if (wqe.is_send() && tx.credits.next_exceeds()) return {};
  const auto place = translate(ctx, qp, wqe.sge.lkey, wqe.sge.addr, wqe.sge.length, {});
  if (place.result != memory::AccessResult::ok) return {};
  PeerHeaders headers(ctx, qp, ctx.request_headers);
  SendSlot& slot = qp.slot(tx.sq.next());
  wqe.fill(slot, tx.next, tx.credits.next_message());
  note_ack_request(ctx, qp);
  emit(ctx, qp, headers, slot, place.host, wqe.packet_opcode(), true, true);
  tx.sq.advance(1);
  tx.cursor.move_to(tx.sq.next());
  tx.sent = ++tx.next;
  return begin_waiting(ctx, qp);
}

}  // namespace

Outcome transmit_plain_requests(Context& ctx, Qp& qp) {
  if (!may_send_plain(qp)) return {};
  auto& tx = qp.tx;
  uint32_t left = fetchable(qp);
  if (left <= 1) return left == 0 ? Outcome{} : transmit_lone(ctx, qp);
  const uint32_t mtu = qp.mtu();
  uint32_t interval = ack_request_interval(qp);
  int32_t room = room_in_window(qp);
  const Psn first = tx.next;
  PeerHeaders headers(ctx, qp, ctx.request_headers);
  PlainWqe wqe(tx.sq.slot());
  for (bool plain = wqe.is_plain(mtu); plain && room > 0 && !ctx.builder.full();) {
    if (left == 1) left = fetchable(qp);
    const bool last = left == 1;
    const PlainWqe after = last ? wqe : PlainWqe(tx.sq.slot(1));
    plain = after.is_plain(mtu);
    if (!plain) break;  // Whether this one asks for an ACK depends on one that is not plain.
    if (wqe.is_send() && tx.credits.next_exceeds()) break;
    const auto place = translate(ctx, qp, wqe.sge.lkey, wqe.sge.addr, wqe.sge.length, {});
    if (place.result != memory::AccessResult::ok) break;
    SendSlot& slot = qp.slot(tx.sq.next());
    wqe.fill(slot, tx.next, tx.credits.next_message());
    const bool more_follows = !last && --room > 0 && !(after.is_send() && tx.credits.next_exceeds());
    const bool ack_request = ack_request_is_due(ctx, qp, interval) || wqe.signaled() || qp.signal_all || !more_follows;
    if (ack_request) note_ack_request(ctx, qp);
    const bool window_changed = emit(ctx, qp, headers, slot, place.host, wqe.packet_opcode(), ack_request, last);
    tx.sq.advance(1);
    tx.sent = ++tx.next;
    if (window_changed) [[unlikely]] {
      interval = ack_request_interval(qp);
      room = room_in_window(qp);
    }
    if (last) break;
    wqe = after;
    --left;
  }
  tx.cursor.move_to(tx.sq.next());
  return tx.next == first ? Outcome{} : begin_waiting(ctx, qp);
}

}  // namespace uroce::transport
