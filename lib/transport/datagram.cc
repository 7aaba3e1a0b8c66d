// Unreliable datagrams: one packet each, to whom the work request says (IBTA vol. 1, 9.8.3).
#include <array>

#include "transport/segment.h"

namespace uroce::transport {
namespace {

/// What stands in front of every datagram received, as the GRH does in InfiniBand: the IPv6 header, or the IPv4 header
/// in the last 20 bytes (annex A17).
constexpr std::size_t kGrhBytes = 40;
constexpr std::size_t kIpv4Bytes = 20;

using Grh = std::array<std::byte, kGrhBytes>;

Grh grh_of(const wire::Packet& packet) {
  Grh grh{};
  const std::size_t length = packet.ip_version == 4 ? kIpv4Bytes : kGrhBytes;
  std::memcpy(grh.data() + kGrhBytes - length, packet.frame + packet.l3_offset, length);
  return grh;
}

// 10.2.5: a work request whose Q_Key has the high bit set sends that of its QP, so that only who may set a QP's
// Q_Key can use the controlled ones.
uint32_t qkey_of(const Qp& qp, uint32_t asked) {
  constexpr uint32_t kControlled = 1u << 31;
  return (asked & kControlled) != 0 ? qp.cold->attr.qkey : asked;
}

bool can_be_sent(const Qp& qp, SendSlot& slot, const AddressHandle* handle) {
  if (handle == nullptr || slot.destination().qpn > Psn::kMask) slot.status = WcStatus::local_qp_operation_error;
  // C10-93.1.1 lets such a message vanish as if it were sent; the application is better told.
  if (slot.length > qp.mtu()) slot.status = WcStatus::local_length_error;
  return slot.status == WcStatus::success;
}

void complete_datagram(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  WcFlags flags = WcFlag::grh;
  if (packet.op().flags.has(wire::Op::imm)) flags |= WcFlag::with_imm;
  queues::Cqe cqe{};
  cqe.byte_len = static_cast<uint32_t>(kGrhBytes + packet.payload.size());
  cqe.opcode = static_cast<uint8_t>(WcOpcode::recv);
  cqe.imm_or_key = packet.imm;
  cqe.src_qpn = packet.deth.src_qpn;
  cqe.flags = flags.bits();
  complete_recv(core, qp, cqe, packet.bth.solicited);
}

}  // namespace

bool send_datagram(EngineCore& core, Qp& qp, SendSlot& slot) {
  auto& tx = qp.tx;
  const SendSlot::Destination to = slot.destination();
  const AddressHandle* handle = core.handles != nullptr ? core.handles->find(to.ah, qp.pd) : nullptr;
  if (!can_be_sent(qp, slot, handle)) return false;
  TxFrame& frame = core.builder.next();
  if (!gather(core, qp, slot, frame, 0, slot.length)) {
    slot.status = WcStatus::local_protection_error;
    return false;
  }
  // The request completes when the frame has been taken, and its memory may change then.
  frame.copy_payload = true;
  const bool imm = slot.opcode == WrOpcode::send_with_imm;
  std::byte* const headers = FrameBuilder::extended_headers(frame, handle->route);
  wire::Deth{.qkey = qkey_of(qp, to.qkey), .src_qpn = qp.qpn}.store(headers);
  if (imm) store_be32(headers + wire::Deth::kBytes, slot.imm_or_key);
  // 10.5.2: members on this device hear what is sent to the group from here. Their copy follows the one for the wire.
  const bool to_group = handle->multicast && to.qpn == kMulticastQpn;
  const bool returned = tx.cursor_packet != 0;
  core.builder.finish(frame, qp,
                      {.route = handle->route,
                       .qpn = to.qpn,
                       .udp_source = wire::udp_source_port(handle->flow_label, qp.qpn, to.qpn),
                       .loopback = handle->loopback || returned},
                      imm ? wire::Opcode::ud_send_only_imm : wire::Opcode::ud_send_only, slot.first_psn,
                      wire::Deth::kBytes + (imm ? wire::kImmBytes : 0), {.solicited = slot.has(SendFlag::solicited)});
  wire::set_dst_mac(frame.header.data(), handle->dst_mac.load());
  if (to_group && !returned && !core.groups.members(handle->dgid).empty()) {
    tx.cursor_packet = 1;
    return true;
  }
  ++tx.cursor;
  tx.cursor_packet = 0;
  return true;
}

void on_datagram(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  // 10.2.5: without the right Q_Key the datagram is dropped silently.
  if (packet.deth.qkey != qp.cold->attr.qkey) return core.count_drop(wire::Drop::qkey);
  if (packet.payload.size() > qp.mtu()) return core.count_drop(wire::Drop::payload_length);
  if (!qp.rx.recv_held) {
    const TakeRecv taken = take_recv(core, qp);
    if (taken == TakeRecv::empty) return core.count_drop(wire::Drop::recv_queue_empty);
    if (taken == TakeRecv::invalid) return fail_recv(core, qp, WcStatus::local_qp_operation_error);
  }
  const Grh grh = grh_of(packet);
  WcStatus placed = place_received(core, qp, 0, grh);
  if (placed == WcStatus::success) placed = place_received(core, qp, kGrhBytes, packet.payload);
  // 9.9.3, class D: a datagram longer than the receive is dropped, and the receive serves the next one.
  if (placed == WcStatus::local_length_error) return core.count_drop(wire::Drop::payload_length);
  if (placed != WcStatus::success) return fail_recv(core, qp, placed);
  complete_datagram(core, qp, packet);
}

}  // namespace uroce::transport
