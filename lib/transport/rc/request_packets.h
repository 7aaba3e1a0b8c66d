// The packets of RC requests: SEND and WRITE data, READ requests, atomics (IBTA vol. 1, 9.4), FLUSH and
// ATOMIC WRITE (annex A19).
#pragma once

#include <algorithm>

#include "transport/core/context.h"
#include "transport/qp/qp.h"
#include "transport/qp/segment.h"
#include "transport/qp/send_window.h"

namespace uroce::transport {

/// Longest READ that one request asks for: the PSNs outstanding must stay below half the PSN space (9.7.1).
inline constexpr uint32_t kMaxReadPackets = 1u << 22;

/// One packet of a SEND or WRITE. False: a key or bound is wrong, and the slot's status says so.
bool emit_data(Context& ctx, Qp& qp, SendSlot& slot, const Segment& segment, Psn psn, bool ack_request);
/// Asks for `packets` of a READ's response, from its packet `first` on.
void emit_read_request(Context& ctx, Qp& qp, SendSlot& slot, uint32_t first, uint32_t packets);
void emit_atomic(Context& ctx, Qp& qp, const SendSlot& slot);
/// An atomic's header and opcode.
inline wire::AtomicEth atomic_header(const SendSlot& slot) {
  const bool swap = slot.opcode == WrOpcode::compare_swap;
  const auto& [compare_add, swap_with] = slot.operands();
  return {slot.remote_addr, slot.rkey, swap ? swap_with : compare_add, swap ? compare_add : 0};
}
inline wire::Opcode atomic_opcode(const SendSlot& slot) {
  return slot.opcode == WrOpcode::compare_swap ? wire::Opcode::rc_compare_swap : wire::Opcode::rc_fetch_add;
}
/// FLUSH or ATOMIC WRITE.
void emit_placement(Context& ctx, Qp& qp, const SendSlot& slot);

/// Do the responses of a READ or atomic, of so many packets, fit beside those that are outstanding? One always may go.
inline bool responses_fit(const Context& ctx, const Qp& qp, uint32_t packets) {
  const auto& tx = qp.tx;
  const auto outstanding = static_cast<uint32_t>(distance(tx.sent, tx.una));
  if (tx.rd_atomic >= qp.max_rd_atomic || outstanding >= kMaxReadPackets) return false;
  return tx.rd_atomic == 0 || outstanding + packets <= ctx.config.read_window_packets;
}

/// Adds a request packet that leaves for the first time to the burst. Returns whether the window may have changed.
inline bool add_new(Context& ctx, Qp& qp, const TxFrame& frame, Psn psn) {
  ctx.builder.add(frame);
  const bool changed = make_room(ctx, qp, psn);
  qp.tx.recovery->loss.on_sent(psn, false, ctx.now);
  return changed;
}

// --- When a packet asks for an ACK ---------------------------------------------------------------------------------

/// At least one packet in so many asks for an ACK. A small window has several ACK requests as well:
/// ack_request_interval().
inline constexpr uint32_t kAckRequestInterval = 16;

/// At least one packet in so many, with the present window.
inline uint32_t ack_request_interval(const Qp& qp) { return std::clamp(qp.tx.window / 4, 1u, kAckRequestInterval); }

/// Counts a packet. Returns whether it must ask for an ACK even if it ends no message. `interval`:
/// ack_request_interval().
inline bool ack_request_is_due(const Context& ctx, Qp& qp, uint32_t interval) {
  auto& tx = qp.tx;
  if (++tx.since_ack_request >= interval) return true;
  // A slow sender asks by time as well, or its probe timer would end before the next ACK.
  return qp.selective && ctx.now - tx.recovery->ack_asked_at > tx.recovery->loss.rtt().smoothed() / 2;
}

inline void note_ack_request(const Context& ctx, Qp& qp) {
  qp.tx.since_ack_request = 0;
  if (qp.selective) qp.tx.recovery->ack_asked_at = ctx.now;
}

}  // namespace uroce::transport
