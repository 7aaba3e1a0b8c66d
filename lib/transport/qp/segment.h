// Segmentation: one packet's part of a SEND or WRITE, for RC and UC.
#pragma once

#include <algorithm>

#include "transport/core/context.h"
#include "transport/qp/memory_access.h"

namespace uroce::transport {

struct Segment {
  uint32_t offset;
  uint32_t length;
  bool first;
  bool last;
};

inline wire::Opcode send_opcode(const SendSlot& slot, const Segment& s) {
  using wire::Opcode;
  if (!s.last) return s.first ? Opcode::rc_send_first : Opcode::rc_send_middle;
  switch (slot.opcode) {
    case WrOpcode::send_with_imm: return s.first ? Opcode::rc_send_only_imm : Opcode::rc_send_last_imm;
    case WrOpcode::send_with_invalidate: return s.first ? Opcode::rc_send_only_inv : Opcode::rc_send_last_inv;
    default: return s.first ? Opcode::rc_send_only : Opcode::rc_send_last;
  }
}

inline wire::Opcode write_opcode(const SendSlot& slot, const Segment& s) {
  using wire::Opcode;
  if (slot.as_onlies) return Opcode::rc_write_only;
  if (!s.last) return s.first ? Opcode::rc_write_first : Opcode::rc_write_middle;
  if (slot.opcode == WrOpcode::rdma_write_with_imm) {
    return s.first ? Opcode::rc_write_only_imm : Opcode::rc_write_last_imm;
  }
  return s.first ? Opcode::rc_write_only : Opcode::rc_write_last;
}

// Adds [offset, offset + length) of the message to the frame. False when a key or bound is wrong.
inline bool gather(Context& ctx, const Qp& qp, SendSlot& slot, TxFrame& frame, uint32_t offset, uint32_t length) {
  if (slot.has(SendFlag::inline_data)) {
    frame.copy_payload = true;
    ctx.builder.add_payload(frame, slot.inline_data() + offset, length);
    return true;
  }
  if (slot.num_sge == 1) [[likely]] {
    const Sge& sge = slot.sges()[0];
    const auto place = translate(ctx, qp, sge.lkey, sge.addr + offset, length, {});
    if (place.result != memory::AccessResult::ok) return false;
    ctx.builder.add_payload(frame, place.host, length);
    return true;
  }
  for (uint32_t i = 0; i < slot.num_sge && length > 0; ++i) {
    const Sge& sge = slot.sges()[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const uint32_t piece = std::min(length, sge.length - offset);
    const auto place = translate(ctx, qp, sge.lkey, sge.addr + offset, piece, {});
    if (place.result != memory::AccessResult::ok) return false;
    ctx.builder.add_payload(frame, place.host, piece);
    length -= piece;
    offset = 0;
  }
  return length == 0;
}

inline Segment segment_at(const Qp& qp, const SendSlot& slot, uint32_t packet) {
  const uint32_t offset = packet << qp.mtu_shift;
  return {offset, std::min(slot.length - offset, qp.mtu()), packet == 0, packet + 1 == slot.packets};
}

inline Segment segment_at_cursor(const Qp& qp, const SendSlot& slot) {
  return segment_at(qp, slot, qp.tx.cursor.packet());
}

/// Does the packet carry the solicited event bit?
inline bool is_solicited(const SendSlot& slot, const Segment& segment) {
  return segment.last && slot.has(SendFlag::solicited) && slot.takes_recv();
}

/// The RC opcode of a SEND's or WRITE's packet.
inline wire::Opcode data_opcode(const SendSlot& slot, const Segment& segment) {
  return slot.is_write() ? write_opcode(slot, segment) : send_opcode(slot, segment);
}

/// Of a packet that begins a message.
inline wire::Reth write_header(const SendSlot& slot, const Segment& segment) {
  return {slot.remote_addr + segment.offset, slot.rkey, slot.as_onlies ? segment.length : slot.length};
}

/// Writes the RETH, immediate data or IETH that `opcode` has. Returns their size in bytes.
inline std::size_t store_data_headers(std::byte* at, const SendSlot& slot, const Segment& segment,
                                      wire::Opcode opcode) {
  const wire::OpFlags flags = wire::info(opcode).flags;
  std::size_t extended = 0;
  if (flags.has(wire::Op::reth)) {
    write_header(slot, segment).store(at);
    extended += wire::Reth::kBytes;
  }
  if (flags.has_any(Flags(wire::Op::imm) | wire::Op::ieth)) {
    store_be32(at + extended, slot.imm_or_key);
    extended += wire::kImmBytes;
  }
  return extended;
}

}  // namespace uroce::transport
