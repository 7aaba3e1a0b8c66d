#include "transport/datagram/uc.h"

#include "transport/core/guess.h"
#include "transport/qp/inbound_write.h"
#include "transport/qp/peer_frame.h"
#include "transport/qp/receive_queue.h"
#include "transport/qp/segment.h"

namespace uroce::transport {
namespace {

using wire::Op;

wire::Opcode uc_opcode(wire::Opcode rc) { return wire::as(wire::Transport::uc, rc); }

// 9.8.2.2: a message that lost a packet is dropped; the next message takes its receive.
Outcome abandon_message(Context& ctx, Qp& qp, wire::Drop reason) {
  qp.rx.message.end();
  ctx.count_drop(reason);
  return {};
}

// As abandon_message(), for memory that the packet's key does not open.
Outcome refuse_key(Context& ctx, Qp& qp, const wire::Packet& packet) {
  count_guess(ctx, packet, Guess::rkey);
  qp.cold->key_brake.on_wrong(ctx.now);
  return abandon_message(ctx, qp, wire::Drop::remote_access);
}

// Takes a receive for the message, unless a dropped message has left one.
struct Taken {
  bool have = true;
  Outcome out;
};
Taken have_recv(Context& ctx, Qp& qp) {
  if (qp.rx.message.recv_in_use()) return {};
  switch (take_recv(ctx, qp)) {
    case TakeRecv::taken: return {};
    case TakeRecv::empty: return {false, abandon_message(ctx, qp, wire::Drop::recv_queue_empty)};
    case TakeRecv::invalid: break;
  }
  return {false, fail_recv(ctx, qp, WcStatus::local_qp_operation_error)};
}

Outcome finish_message(Context& ctx, Qp& qp, const wire::Packet& packet, WcOpcode opcode) {
  qp.rx.message.end();
  if (opcode == WcOpcode::recv_rdma_with_imm && !packet.op().flags.has(Op::takes_recv)) return {};
  return complete_recv(ctx, qp, completion_of(packet, opcode, qp.rx.message.bytes()), packet.bth.solicited);
}

Outcome execute_send(Context& ctx, Qp& qp, const wire::Packet& packet) {
  InboundMessage& message = qp.rx.message;
  if (packet.op().flags.has(Op::first)) message.begin_send();
  if (const Taken taken = have_recv(ctx, qp); !taken.have) return taken.out;
  const WcStatus placed = place_received(ctx, qp, message.bytes(), packet.payload);
  // 9.9.3, class D: a message longer than the receive is dropped; the next message takes the receive.
  if (placed == WcStatus::local_length_error) return abandon_message(ctx, qp, wire::Drop::payload_length);
  if (placed != WcStatus::success) return fail_recv(ctx, qp, placed);
  message.add_to_send(static_cast<uint32_t>(packet.payload.size()));
  return packet.op().flags.has(Op::last) ? finish_message(ctx, qp, packet, WcOpcode::recv) : Outcome{};
}

Outcome execute_write(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::OpFlags op = packet.op().flags;
  memory::Translation place{};
  if (op.has(Op::first)) {
    if (qp.cold->key_brake.holds(packet.reth.rkey, ctx.now)) return refuse_key(ctx, qp, packet);
    if (begin_write(ctx, qp, packet.reth, place) != WriteTarget::ok) return refuse_key(ctx, qp, packet);
    if (packet.reth.length != 0) qp.cold->key_brake.on_opened(packet.reth.rkey);
  }
  const uint32_t length = static_cast<uint32_t>(packet.payload.size());
  if (!qp.rx.message.fits_reth(op, length)) return abandon_message(ctx, qp, wire::Drop::payload_length);
  place = next_write_place(ctx, qp, op, length, place);
  if (place.result != memory::AccessResult::ok) return refuse_key(ctx, qp, packet);
  if (op.has(Op::takes_recv)) {
    if (const Taken taken = have_recv(ctx, qp); !taken.have) return taken.out;
  }
  place_write(place, packet.payload);
  qp.rx.message.add_to_write(length);
  return op.has(Op::last) ? finish_message(ctx, qp, packet, WcOpcode::recv_rdma_with_imm) : Outcome{};
}

Outcome execute_request(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const wire::OpFlags op = packet.op().flags;
  // 9.8.2.2.2: a First or Only begins a message whatever its PSN; any other packet must continue the message.
  if (op.has(Op::first)) {
    qp.rx.message.end();
  } else if (packet.bth.psn != qp.rx.expected || !qp.rx.message.may_go_on_with(op)) {
    return abandon_message(ctx, qp, wire::Drop::message_broken);
  }
  qp.rx.expected = packet.bth.psn + 1;
  if (!payload_fits_mtu(qp, op, packet.payload.size())) {
    return abandon_message(ctx, qp, wire::Drop::payload_length);
  }
  if (op.has(Op::send)) return execute_send(ctx, qp, packet);
  if (!qp.access.has(Access::remote_write)) return refuse_key(ctx, qp, packet);
  return execute_write(ctx, qp, packet);
}

}  // namespace

bool send_uc_packet(Context& ctx, Qp& qp, SendSlot& slot) {
  const Segment segment = segment_at_cursor(qp, slot);
  TxFrame& frame = ctx.builder.next();
  if (!gather(ctx, qp, slot, frame, segment.offset, segment.length)) {
    slot.status = WcStatus::local_protection_error;
    return false;
  }
  // The request completes when the sink has taken the frame. Then the application may change the memory.
  frame.copy_payload = true;
  const wire::Opcode opcode = data_opcode(slot, segment);
  const std::size_t extended =
      store_data_headers(FrameBuilder::extended_headers(frame, *qp.route), slot, segment, opcode);
  finish_to_peer(ctx.builder, frame, qp, uc_opcode(opcode), slot.first_psn + qp.tx.cursor.packet(), extended,
                 {.solicited = is_solicited(slot, segment)});
  qp.tx.cursor.step(1, slot.packets);
  return true;
}

Outcome on_uc_request(Context& ctx, Qp& qp, const wire::Packet& packet) {
  report_established(ctx, qp);
  const Outcome out = execute_request(ctx, qp, packet);
  publish_recv_in_use(qp);
  return out;
}

}  // namespace uroce::transport
