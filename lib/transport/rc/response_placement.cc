#include "transport/rc/response_placement.h"

#include <algorithm>

#include "transport/qp/memory_access.h"
#include "transport/rc/request_packets.h"

namespace uroce::transport {
namespace {

// Was the READ sent in more than one request packet?
bool in_parts(const SendSlot& slot) { return slot.asked_again || slot.packets > kMaxReadPackets; }

// First/Middle/Last/Only and the length must agree with the packet's place in the response (9.7.5.1.4). When a READ was
// sent in parts, each part has a First and a Last of its own.
bool read_response_fits(const Qp& qp, const SendSlot& slot, const wire::Packet& packet, uint32_t index) {
  const uint32_t offset = index << qp.mtu_shift;
  const bool first = packet.op().flags.has(wire::Op::first);
  const bool last = packet.op().flags.has(wire::Op::last);
  if (index == 0 ? !first : first && !slot.asked_again) return false;
  if (index + 1 == slot.packets ? !last : last && !in_parts(slot)) return false;
  return packet.payload.size() == std::min(slot.length - offset, qp.mtu());
}

// Places bytes at `offset` of the request's own scatter list.
WcStatus fill(const Context& ctx, const Qp& qp, const SendSlot& slot, uint32_t offset,
              std::span<const std::byte> bytes) {
  const WcStatus status = scatter(ctx, qp.pd, {slot.sges(), slot.num_sge}, offset, bytes);
  return status == WcStatus::success ? status : WcStatus::local_protection_error;
}

}  // namespace

WcStatus place_response(Context& ctx, Qp& qp, const SendSlot& slot, const wire::Packet& packet) {
  if (slot.is_atomic()) {
    // The result is delivered in the host's byte order (10.7.2.3).
    const uint64_t result = packet.atomic_ack;
    return fill(ctx, qp, slot, 0, std::as_bytes(std::span(&result, 1)));
  }
  const uint32_t index = static_cast<uint32_t>(distance(packet.bth.psn, slot.first_psn));
  if (!read_response_fits(qp, slot, packet, index)) {
    ctx.count_drop(wire::Drop::payload_length);
    return WcStatus::bad_response;
  }
  return fill(ctx, qp, slot, index << qp.mtu_shift, packet.payload);
}

WcStatus place_buffered(Context& ctx, Qp& qp, const SendSlot& slot) {
  ReorderBuffer& ahead = qp.tx.recovery->responses_ahead;
  const Psn una = qp.tx.una;
  const auto span = std::min(static_cast<uint32_t>(distance(slot.end_psn(), una)), ahead.capacity() + 1);
  WcStatus status = WcStatus::success;
  for (uint32_t i = 0; i < span && !ahead.empty(); ++i) {
    const uint16_t number = ahead.take(ctx.frames, una + i);
    if (number == 0) continue;
    // The ICRC was checked when it arrived.
    const auto packet = wire::parse(ctx.frames.frame(number), wire::Icrc::skip);
    if (status == WcStatus::success && packet) status = place_response(ctx, qp, slot, *packet);
    ctx.frames.release(number);
  }
  return status;
}

}  // namespace uroce::transport
