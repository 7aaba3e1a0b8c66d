#include "transport/datagram/raw_packet.h"

#include <algorithm>
#include <cstring>

#include "transport/core/tape.h"
#include "transport/datagram/flow_table.h"
#include "transport/qp/receive_queue.h"
#include "transport/qp/segment.h"
#include "wire/ethernet.h"
#include "wire/packet.h"
#include "wire/roce_search.h"

namespace uroce::transport {
namespace {

constexpr std::size_t kHeadBytes = sizeof(TxFrame::header);
static_assert(kHeadBytes >= wire::kRoceSearchBytes);

bool refuse(SendSlot& slot, WcStatus status) {
  slot.status = status;
  return false;
}

// Copies the beginning of the frame. The program may change its memory meanwhile, so the copy is checked and sent.
bool copy_head(const Context& ctx, const Qp& qp, SendSlot& slot, std::byte* to, uint32_t length) {
  if (slot.has(SendFlag::inline_data)) {
    std::memcpy(to, slot.inline_data(), length);
    return true;
  }
  for (uint32_t i = 0; i < slot.num_sge && length > 0; ++i) {
    const Sge& sge = slot.sges()[i];
    const uint32_t piece = std::min(length, sge.length);
    if (piece == 0) continue;
    const auto place = translate(ctx, qp, sge.lkey, sge.addr, piece, {});
    if (place.result != memory::AccessResult::ok) return false;
    std::memcpy(to, place.host, piece);
    to += piece;
    length -= piece;
  }
  return length == 0;
}

// Where a frame goes: to the wire, to rules of this device, or to both, as with an RNIC.
struct Reach {
  bool wire = true;
  bool here = false;
};
Reach reach_of(const Context& ctx, std::span<const std::byte> head) {
  if ((head[0] & std::byte{1}) != std::byte{0}) return {.wire = true, .here = true};
  const bool ours = std::memcmp(head.data(), ctx.config.mac.bytes.data(), ctx.config.mac.bytes.size()) == 0;
  return {.wire = !ours, .here = ours};
}

}  // namespace

bool send_raw_frame(Context& ctx, Qp& qp, SendSlot& slot) {
  const uint32_t most = ctx.config.ethernet_mtu + wire::kEthernetBytes + wire::kVlanBytes;
  if (slot.length < wire::kEthernetBytes || slot.length > most) return refuse(slot, WcStatus::local_length_error);
  TxFrame& frame = ctx.builder.next();
  const uint32_t head_length = std::min<uint32_t>(slot.length, kHeadBytes);
  const std::span<const std::byte> head(frame.header.data(), head_length);
  if (!copy_head(ctx, qp, slot, frame.header.data(), head_length) ||
      !gather(ctx, qp, slot, frame, head_length, slot.length - head_length)) {
    return refuse(slot, WcStatus::local_protection_error);
  }
  if (ctx.config.tape != nullptr) ctx.config.tape->taken(std::span(frame.header).first(head_length));
  const std::size_t l3_offset = wire::parse_l2(head).l3_offset;
  if (l3_offset == 0 || slot.length - l3_offset > ctx.config.ethernet_mtu) {
    return refuse(slot, WcStatus::local_length_error);
  }
  // RoCE packets are for engines to build: forged ones could name any queue pair in this port's name.
  if (wire::may_carry_roce(head, head_length == slot.length)) {
    ctx.counters.raw_refused.add();
    return refuse(slot, WcStatus::local_qp_operation_error);
  }
  // The request completes when the sink has taken the frame. Then the application may change the memory.
  frame.copy_payload = true;
  const Reach reach = reach_of(ctx, head);
  auto& cursor = qp.tx.cursor;
  const bool returned = cursor.packet() != 0;
  const uint32_t receiver = reach.here && is_for_rules(head) ? ctx.flows.match(head) : 0;
  const bool loopback = returned || !reach.wire;
  if (loopback && receiver == 0) ctx.counters.raw_unclaimed.add();
  ctx.builder.finish_raw(frame, head_length, loopback, receiver);
  ctx.counters.raw_sent.add();
  // A frame to a group leaves twice where a rule of this device takes it.
  if (reach.wire && receiver != 0 && !returned) {
    cursor.move_to(cursor.index(), 1);
  } else {
    cursor.move_to(cursor.index() + 1);
  }
  return true;
}

Outcome on_raw_frame(Context& ctx, Qp& qp, std::span<const std::byte> frame, uint32_t tag) {
  const auto drop = [&ctx](wire::Drop reason) {
    ctx.count_drop(reason);
    return Outcome{};
  };
  if (qp.state == QpState::reset || qp.state == QpState::init || qp.state == QpState::error) {
    return drop(wire::Drop::qp_state);
  }
  if (!qp.rx.message.recv_in_use()) {
    const TakeRecv taken = take_recv(ctx, qp);
    if (taken == TakeRecv::empty) return drop(wire::Drop::recv_queue_empty);
    if (taken == TakeRecv::invalid) return fail_recv(ctx, qp, WcStatus::local_qp_operation_error);
  }
  const WcStatus placed = place_received(ctx, qp, 0, frame);
  // As a datagram: a frame longer than the receive is dropped; the next frame takes the receive.
  if (placed == WcStatus::local_length_error) {
    publish_recv_in_use(qp);
    return drop(wire::Drop::payload_length);
  }
  if (placed != WcStatus::success) return fail_recv(ctx, qp, placed);
  ctx.counters.raw_received.add();
  queues::Cqe cqe{};
  cqe.byte_len = static_cast<uint32_t>(frame.size());
  cqe.opcode = static_cast<uint8_t>(WcOpcode::recv);
  cqe.flow_tag = tag;
  cqe.vlan_tag = wire::parse_l2(frame).tag;
  return complete_recv(ctx, qp, cqe, false);
}

}  // namespace uroce::transport
