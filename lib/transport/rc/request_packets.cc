#include "transport/rc/request_packets.h"

#include <algorithm>

#include "transport/qp/peer_frame.h"
#include "transport/rc/ack_request.h"
#include "transport/rc/pacing.h"

namespace uroce::transport {
namespace {

using wire::Opcode;

// Records that a request packet leaves. Returns its tag: how often it was sent before, which a uroce peer echoes. The
// tag is in reserved bits of the BTH, which must be 0 towards other peers.
uint8_t record_departure(Context& ctx, Qp& qp, Psn psn) {
  const bool again = distance(psn, qp.tx.sent) < 0;
  if (again) ctx.counters.retransmitted_packets.add();
  const uint16_t before = qp.tx.recovery->loss.on_sent(psn, again, ctx.now);
  return qp.selective ? static_cast<uint8_t>(std::min<uint16_t>(before, 127)) : uint8_t{0};
}

}  // namespace

bool emit_data(Context& ctx, Qp& qp, SendSlot& slot, const Segment& segment, Psn psn, bool ack_request) {
  TxFrame& frame = ctx.builder.next();
  if (!gather(ctx, qp, slot, frame, segment.offset, segment.length)) {
    slot.status = WcStatus::local_protection_error;
    return false;
  }
  const Opcode opcode = data_opcode(slot, segment);
  const std::size_t extended = store_data_headers(FrameBuilder::extended_headers(frame, *qp.route), slot, opcode);
  if (ack_request) note_ack_request(ctx, qp);
  finish_to_peer(ctx.builder, frame, qp, opcode, psn, extended,
                 {.ack_request = ack_request,
                  .solicited = is_solicited(slot, segment),
                  .tag = record_departure(ctx, qp, psn),
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
  wire::Reth{slot.remote_addr + offset, slot.rkey, length}.store(FrameBuilder::extended_headers(frame, *qp.route));
  const bool again = distance(psn, qp.tx.sent) < 0;
  finish_to_peer(ctx.builder, frame, qp, Opcode::rc_read_request, psn, wire::Reth::kBytes,
                 {.tag = record_departure(ctx, qp, psn)});
  if (first > 0 || again) slot.asked_again = true;
}

void emit_atomic(Context& ctx, Qp& qp, const SendSlot& slot) {
  wire::AtomicEth header{slot.remote_addr, slot.rkey, slot.compare_add, 0};
  Opcode opcode = Opcode::rc_fetch_add;
  if (slot.opcode == WrOpcode::compare_swap) {
    header.swap_add = slot.swap;
    header.compare = slot.compare_add;
    opcode = Opcode::rc_compare_swap;
  }
  TxFrame& frame = ctx.builder.next();
  header.store(FrameBuilder::extended_headers(frame, *qp.route));
  finish_to_peer(ctx.builder, frame, qp, opcode, slot.first_psn, wire::AtomicEth::kBytes,
                 {.tag = record_departure(ctx, qp, slot.first_psn)});
}

}  // namespace uroce::transport
