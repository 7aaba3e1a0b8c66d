#include "transport/rc/request_packets.h"

#include <algorithm>
#include <cstring>

#include "transport/qp/peer_frame.h"
#include "transport/qp/send_window.h"
#include "transport/rc/congestion.h"

namespace uroce::transport {
namespace {

using wire::Opcode;

// Records that a request packet leaves, which takes so many PSNs. Returns how often it was sent before, which a
// uroce peer echoes.
uint8_t record_departure(Context& ctx, Qp& qp, Psn psn, uint32_t packets = 1) {
  make_room(ctx, qp, psn + (packets - 1));
  const bool again = distance(psn, qp.tx.sent) < 0;
  if (again) ctx.counters.retransmitted_packets.add();
  LossDetector& loss = qp.tx.recovery->loss;
  const uint16_t before = loss.on_sent(psn, again, ctx.now);
  if (!qp.selective) return 0;
  const auto copy = static_cast<uint8_t>(std::min<uint16_t>(before, wire::Seal::kCopyMask));
  if (again) loss.note_retransmission(psn, copy, qp.tx.sent);
  return copy;
}

// Writes the XRCETH that every XRC request has. Returns its size in bytes.
std::size_t store_xrceth(std::byte* at, const Qp& qp, const SendSlot& slot) {
  if (qp.type == QpType::rc) [[likely]]
    return 0;
  wire::Xrceth{.srqn = slot.remote_srqn()}.store(at);
  return wire::Xrceth::kBytes;
}

}  // namespace

bool emit_data(Context& ctx, Qp& qp, SendSlot& slot, const Segment& segment, Psn psn, bool ack_request) {
  TxFrame& frame = ctx.builder.next();
  if (!gather(ctx, qp, slot, frame, segment.offset, segment.length)) {
    slot.status = WcStatus::local_protection_error;
    return false;
  }
  const Opcode opcode = data_opcode(slot, segment);
  std::byte* const headers = FrameBuilder::extended_headers(frame, *qp.route);
  const std::size_t before = store_xrceth(headers, qp, slot);
  const std::size_t extended = before + store_data_headers(headers + before, slot, segment, opcode);
  if (ack_request) note_ack_request(ctx, qp);
  finish_to_peer(ctx.builder, frame, qp, opcode_of(qp, opcode), psn, extended,
                 {.ack_request = ack_request,
                  .solicited = is_solicited(slot, segment),
                  .copy = record_departure(ctx, qp, psn),
                  .ecn = qp.ecn});
  charge_data(ctx, qp, frame);
  return true;
}

void emit_read_request(Context& ctx, Qp& qp, SendSlot& slot, uint32_t first, uint32_t packets) {
  const Psn psn = slot.first_psn + first;
  const uint32_t offset = first << qp.mtu_shift;
  const uint64_t whole = uint64_t{packets} << qp.mtu_shift;
  const uint32_t length = static_cast<uint32_t>(std::min<uint64_t>(slot.length - offset, whole));
  TxFrame& frame = ctx.builder.next();
  std::byte* const headers = FrameBuilder::extended_headers(frame, *qp.route);
  const std::size_t before = store_xrceth(headers, qp, slot);
  wire::Reth{slot.remote_addr + offset, slot.rkey, length}.store(headers + before);
  const bool again = distance(psn, qp.tx.sent) < 0;
  finish_to_peer(ctx.builder, frame, qp, opcode_of(qp, Opcode::rc_read_request), psn, before + wire::Reth::kBytes,
                 {.copy = record_departure(ctx, qp, psn, packets)});
  if (first > 0 || again) slot.asked_again = true;
}

void emit_atomic(Context& ctx, Qp& qp, const SendSlot& slot) {
  TxFrame& frame = ctx.builder.next();
  std::byte* const headers = FrameBuilder::extended_headers(frame, *qp.route);
  const std::size_t before = store_xrceth(headers, qp, slot);
  atomic_header(slot).store(headers + before);
  finish_to_peer(ctx.builder, frame, qp, opcode_of(qp, atomic_opcode(slot)), slot.first_psn,
                 before + wire::AtomicEth::kBytes, {.copy = record_departure(ctx, qp, slot.first_psn)});
}

void emit_placement(Context& ctx, Qp& qp, const SendSlot& slot) {
  TxFrame& frame = ctx.builder.next();
  std::byte* const extended = FrameBuilder::extended_headers(frame, *qp.route);
  const std::size_t before = store_xrceth(extended, qp, slot);
  std::byte* const headers = extended + before;
  const BthFlags flags{.copy = record_departure(ctx, qp, slot.first_psn)};
  if (slot.opcode == WrOpcode::atomic_write) {
    wire::Reth{slot.remote_addr, slot.rkey, sizeof(uint64_t)}.store(headers);
    std::byte* const value = ctx.builder.scratch();
    std::memcpy(value, &slot.operands().swap, sizeof(uint64_t));
    ctx.builder.add_payload(frame, value, sizeof(uint64_t));
    finish_to_peer(ctx.builder, frame, qp, opcode_of(qp, Opcode::rc_atomic_write), slot.first_psn,
                   before + wire::Reth::kBytes, flags);
    return;
  }
  const SendSlot::PlacementFlush flush = slot.placement_flush();
  wire::Feth{static_cast<uint8_t>(flush.placement), static_cast<uint8_t>(flush.scope)}.store(headers);
  wire::Reth{slot.remote_addr, slot.rkey, flush.length}.store(headers + wire::Feth::kBytes);
  finish_to_peer(ctx.builder, frame, qp, opcode_of(qp, Opcode::rc_placement_flush), slot.first_psn,
                 before + wire::Feth::kBytes + wire::Reth::kBytes, flags);
}

}  // namespace uroce::transport
