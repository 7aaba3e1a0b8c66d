#include "transport/datagram/ud.h"

#include <cstring>

#include "base/datagram_flags.h"
#include "transport/core/guess.h"
#include "transport/datagram/grh.h"
#include "transport/datagram/multicast.h"
#include "transport/qp/plain_recv.h"
#include "transport/qp/receive_queue.h"
#include "transport/qp/segment.h"

namespace uroce::transport {
namespace {

// Without the right Q_Key a datagram is dropped silently (IBTA vol. 1, 10.2.5).
bool qkey_matches(const Qp& qp, const wire::Packet& packet) { return packet.deth.qkey == qp.cold->attr.qkey; }

bool can_be_sent(const Qp& qp, SendSlot& slot, const AddressHandle* handle) {
  if (handle == nullptr || slot.destination().qpn > Psn::kMask) slot.status = WcStatus::local_qp_operation_error;
  // C10-93.1.1 allows to drop such a message silently. An error completion helps the application more.
  if (slot.length > qp.mtu()) slot.status = WcStatus::local_length_error;
  return slot.status == WcStatus::success;
}

queues::Cqe completion_of_datagram(const wire::Packet& packet) {
  WcFlags flags = WcFlag::grh;
  if (packet.ip_version == 4) flags |= kFromIpv4;
  queues::Cqe cqe = completion_of(packet, WcOpcode::recv, kGrhBytes + packet.payload.size(), flags);
  cqe.src_qpn = packet.deth.src_qpn;
  cqe.vlan_tag = packet.vlan.value_or(0);
  return cqe;
}

// The shortcut for a receive of one entry: the general way without the branches of others. False: nothing is done.
template <Steps kSteps>
bool place_plain(Context& ctx, Qp& qp, const wire::Packet& packet) {
  PlainRecv recv(qp);
  std::byte* const place = recv.place(ctx, kGrhBytes + packet.payload.size());
  if (place == nullptr) return false;
  ctx.hand.drop<kSteps>();  // Until the bytes are there nothing changes.
  write_grh(place, packet);
  std::memmove(place + kGrhBytes, packet.payload.data(), packet.payload.size());
  ctx.hand.take<kSteps>(qp);
  recv.take(ctx, qp);
  return true;
}

}  // namespace

bool send_datagram(Context& ctx, Qp& qp, SendSlot& slot) {
  auto& tx = qp.tx;
  const SendSlot::Destination to = slot.destination();
  const AddressHandle* handle = ctx.handles != nullptr ? ctx.handles->find(to.ah, qp.pd) : nullptr;
  if (!can_be_sent(qp, slot, handle)) return false;
  TxFrame& frame = ctx.builder.next();
  if (!gather(ctx, qp, slot, frame, 0, slot.length)) {
    slot.status = WcStatus::local_protection_error;
    return false;
  }
  // The request completes when the sink has taken the frame. Then the application may change the memory.
  frame.copy_payload = true;
  const bool imm = slot.opcode == WrOpcode::send_with_imm;
  std::byte* const headers = FrameBuilder::extended_headers(frame, handle->route);
  wire::Deth{.qkey = qkey_to_send(qp, to.qkey), .src_qpn = qp.qpn}.store(headers);
  if (imm) store_be32(headers + wire::Deth::kBytes, slot.imm_or_key);
  // 10.5.2: members on this device also get datagrams that are sent to the group from here. Their copy follows the copy
  // for the wire.
  const bool to_group = handle->multicast && to.qpn == kMulticastQpn;
  const bool returned = tx.cursor.packet() != 0;
  FrameBuilder::Destination destination = destination_of(qp, *handle, to.qpn);
  destination.loopback |= returned;
  ctx.builder.finish(frame, destination, imm ? wire::Opcode::ud_send_only_imm : wire::Opcode::ud_send_only,
                     slot.first_psn, wire::Deth::kBytes + (imm ? wire::kImmBytes : 0),
                     {.solicited = slot.has(SendFlag::solicited)});
  wire::set_dst_mac(frame.header.data(), handle->dst_mac.load());
  if (to_group && !returned && !ctx.groups.members(handle->dgid).empty()) {
    tx.cursor.move_to(tx.cursor.index(), 1);
    return true;
  }
  tx.cursor.move_to(tx.cursor.index() + 1);
  return true;
}

template <Steps kSteps>
Outcome on_datagram(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const auto drop = [&](wire::Drop reason) {
    ctx.count_drop(reason);
    return Outcome{};
  };
  if (!qkey_matches(qp, packet)) {
    count_guess(ctx, packet, Guess::qkey);
    return drop(wire::Drop::qkey);
  }
  if (packet.payload.size() > qp.mtu()) return drop(wire::Drop::payload_length);
  if (!qp.rx.message.recv_in_use()) {
    if (ctx.config.plain_path && place_plain<kSteps>(ctx, qp, packet)) {
      queues::Cqe cqe = completion_of_datagram(packet);
      return report_recv(ctx, qp, cqe, packet.bth.solicited);
    }
    const TakeRecv taken = take_recv(ctx, qp);
    if (taken == TakeRecv::empty) return drop(wire::Drop::recv_queue_empty);
    if (taken == TakeRecv::invalid) return fail_recv(ctx, qp, WcStatus::local_qp_operation_error);
  }
  const Grh grh = grh_of(packet);
  WcStatus placed = place_received(ctx, qp, 0, grh);
  if (placed == WcStatus::success) placed = place_received(ctx, qp, kGrhBytes, packet.payload);
  // 9.9.3, class D: a datagram longer than the receive is dropped; the next datagram takes the receive.
  if (placed == WcStatus::local_length_error) {
    publish_recv_in_use(qp);
    return drop(wire::Drop::payload_length);
  }
  if (placed != WcStatus::success) return fail_recv(ctx, qp, placed);
  return complete_recv(ctx, qp, completion_of_datagram(packet), packet.bth.solicited);
}

template Outcome on_datagram<Steps::unmarked>(Context&, Qp&, const wire::Packet&);
template Outcome on_datagram<Steps::marked>(Context&, Qp&, const wire::Packet&);

}  // namespace uroce::transport
