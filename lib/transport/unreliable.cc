// Unreliable service: requests are sent once and answered by nobody (IBTA vol. 1, 9.8.2; datagrams: 9.8.3).
#include "transport/segment.h"

namespace uroce::transport {
namespace {

using wire::Op;

wire::Opcode uc_opcode(wire::Opcode rc) {
  constexpr uint8_t kUc = static_cast<uint8_t>(wire::Transport::uc) << 5;
  return static_cast<wire::Opcode>(static_cast<uint8_t>(rc) | kUc);
}

// False: a key or bound is wrong, and the slot says so.
bool send_uc_packet(EngineCore& core, Qp& qp, SendSlot& slot) {
  const Segment segment = segment_at_cursor(qp, slot);
  TxFrame& frame = core.builder.next();
  if (!gather(core, qp, slot, frame, segment.offset, segment.length)) {
    slot.status = WcStatus::local_protection_error;
    return false;
  }
  // The request completes when the frame has been taken, and its memory may change then.
  frame.copy_payload = true;
  const wire::Opcode opcode = data_opcode(slot, segment);
  const std::size_t extended = store_data_headers(FrameBuilder::extended_headers(frame, *qp.route), slot, opcode);
  const bool solicited = segment.last && slot.has(SendFlag::solicited) && slot.takes_recv();
  core.builder.finish(frame, qp, uc_opcode(opcode), slot.first_psn + qp.tx.cursor_packet, extended,
                      {.solicited = solicited});
  step_cursor(qp, slot, 1);
  return true;
}

// 9.8.2.2: a message that lost a packet is given up; its receive serves the next one.
void abandon_message(EngineCore& core, Qp& qp, wire::Drop reason) {
  qp.rx.message = Recv::none;
  core.count_drop(reason);
}

bool length_fits(const Qp& qp, wire::OpFlags op, std::size_t payload) {
  if (!op.has(Op::last)) return payload == qp.mtu();
  return payload <= qp.mtu() && (op.has(Op::first) || payload > 0);
}

// Takes a receive for the message unless one is left over from a message that was given up.
bool have_recv(EngineCore& core, Qp& qp) {
  if (qp.rx.recv_held) return true;
  switch (take_recv(core, qp)) {
    case TakeRecv::taken: return true;
    case TakeRecv::empty: abandon_message(core, qp, wire::Drop::recv_queue_empty); return false;
    case TakeRecv::invalid: fail_recv(core, qp, WcStatus::local_qp_operation_error); return false;
  }
  return false;
}

void finish_message(EngineCore& core, Qp& qp, const wire::Packet& packet, WcOpcode opcode) {
  qp.rx.message = Recv::none;
  if (opcode == WcOpcode::recv_rdma_with_imm && !packet.op().flags.has(Op::takes_recv)) return;
  queues::Cqe cqe{};
  cqe.byte_len = qp.rx.received;
  cqe.opcode = static_cast<uint8_t>(opcode);
  cqe.imm_or_key = packet.imm;
  if (packet.op().flags.has(Op::imm)) cqe.flags = WcFlags(WcFlag::with_imm).bits();
  complete_recv(core, qp, cqe, packet.bth.solicited);
}

void execute_send(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  if (packet.op().flags.has(Op::first)) rx.received = 0;
  if (!have_recv(core, qp)) return;
  const WcStatus placed = place_received(core, qp, rx.received, packet.payload);
  // 9.9.3, class D: a message longer than the receive is dropped, and the receive serves the next one.
  if (placed == WcStatus::local_length_error) return abandon_message(core, qp, wire::Drop::payload_length);
  if (placed != WcStatus::success) return fail_recv(core, qp, placed);
  rx.received += static_cast<uint32_t>(packet.payload.size());
  rx.message = Recv::send;
  if (packet.op().flags.has(Op::last)) finish_message(core, qp, packet, WcOpcode::recv);
}

// As for RC, the first packet names the whole target, which is checked before a byte is placed.
bool begin_write(EngineCore& core, Qp& qp, const wire::Reth& reth) {
  auto& rx = qp.rx;
  if (reth.length > kMaxMessage) return false;
  rx.write_va = reth.va;
  rx.write_left = reth.length;
  rx.rkey = reth.rkey;
  rx.received = reth.length;
  return core.translate(qp, reth.rkey, reth.va, reth.length, Access::remote_write).result == memory::AccessResult::ok;
}

void execute_write(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  const wire::OpFlags op = packet.op().flags;
  if (op.has(Op::first) && !begin_write(core, qp, packet.reth)) {
    return abandon_message(core, qp, wire::Drop::remote_access);
  }
  const uint32_t length = static_cast<uint32_t>(packet.payload.size());
  if (op.has(Op::last) ? length != rx.write_left : length >= rx.write_left) {
    return abandon_message(core, qp, wire::Drop::payload_length);
  }
  const auto target = core.translate(qp, rx.rkey, rx.write_va, length, Access::remote_write);
  if (target.result != memory::AccessResult::ok) return abandon_message(core, qp, wire::Drop::remote_access);
  if (op.has(Op::takes_recv) && !have_recv(core, qp)) return;
  if (length > 0) std::memcpy(target.host, packet.payload.data(), length);
  rx.write_va += length;
  rx.write_left -= length;
  rx.message = Recv::write;
  if (op.has(Op::last)) finish_message(core, qp, packet, WcOpcode::recv_rdma_with_imm);
}

bool send_packet(EngineCore& core, Qp& qp, SendSlot& slot) {
  if (slot.is_local()) {
    step_cursor(qp, slot, 0);
    complete_local(core, qp);
    publish_completed(qp);
    return true;
  }
  return qp.type == QpType::ud ? send_datagram(core, qp, slot) : send_uc_packet(core, qp, slot);
}

}  // namespace

bool transmit_unreliable(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  if (qp.state == QpState::error) flush_posted(core, qp);
  if (qp.state == QpState::sqe) flush_sends(core, qp);
  if (qp.state != QpState::rts && qp.state != QpState::sqd) return false;
  while (!core.builder.full()) {
    if (tx.cursor == tx.sq.next() && (qp.state != QpState::rts || fetch_wqe(core, qp) == Fetch::empty)) break;
    SendSlot& slot = qp.slot(tx.cursor);
    if (!slot.started) {
      // A local operation waits until what was sent has left: complete_sent() goes on from there.
      if (qp.state != QpState::rts || (slot.is_local() && tx.cursor != tx.oldest)) break;
      slot.started = true;
      slot.first_psn = tx.next;
      tx.next += slot.packets;
      if (slot.is_local() && slot.status == WcStatus::success) slot.status = run_local(core, qp, slot);
    }
    if (slot.status != WcStatus::success || !send_packet(core, qp, slot)) {
      if (tx.cursor == tx.oldest) enter_send_queue_error(core, qp, slot.status);
      break;
    }
  }
  if (tx.oldest != tx.cursor) core.note_sent(qp);
  return core.builder.full();
}

void complete_sent(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  while (tx.oldest != tx.cursor) complete_oldest(core, qp, WcStatus::success);
  publish_completed(qp);
  check_drained(core, qp);
  // A request found wrong behind those completed has its turn now.
  if (tx.cursor != tx.sq.next()) core.activate(qp);
}

void on_uc_request(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  if (qp.state == QpState::rtr && !qp.cold->communication_established) {
    qp.cold->communication_established = true;
    core.events.on_async_event(AsyncEventType::communication_established, qp.qpn);
  }
  const wire::OpFlags op = packet.op().flags;
  // 9.8.2.2.2: a First or Only starts afresh whatever its PSN; anything else must continue the message.
  if (op.has(Op::first)) {
    qp.rx.message = Recv::none;
  } else {
    const Recv kind = op.has(Op::send) ? Recv::send : Recv::write;
    if (packet.bth.psn != qp.rx.expected || qp.rx.message != kind) {
      return abandon_message(core, qp, wire::Drop::message_broken);
    }
  }
  qp.rx.expected = packet.bth.psn + 1;
  if (!length_fits(qp, op, packet.payload.size())) return abandon_message(core, qp, wire::Drop::payload_length);
  if (op.has(Op::send)) return execute_send(core, qp, packet);
  if (!qp.access.has(Access::remote_write)) return abandon_message(core, qp, wire::Drop::remote_access);
  execute_write(core, qp, packet);
}

}  // namespace uroce::transport
