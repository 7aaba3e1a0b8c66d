// The send queue between its two ends: work requests are copied in once and validated, completions go out in order.
#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm: return WcOpcode::rdma_write;
    case WrOpcode::rdma_read: return WcOpcode::rdma_read;
    case WrOpcode::compare_swap: return WcOpcode::compare_swap;
    case WrOpcode::fetch_add: return WcOpcode::fetch_add;
    case WrOpcode::bind_mw: return WcOpcode::bind_mw;
    case WrOpcode::local_invalidate: return WcOpcode::local_invalidate;
    default: return WcOpcode::send;
  }
}

bool is_operation_of(QpType type, WrOpcode opcode) {
  const bool local = opcode == WrOpcode::bind_mw || opcode == WrOpcode::local_invalidate;
  if (type == QpType::uc) return opcode <= WrOpcode::send_with_imm || local;
  if (type == QpType::ud) return opcode == WrOpcode::send || opcode == WrOpcode::send_with_imm;
  return opcode <= WrOpcode::fetch_add || opcode == WrOpcode::send_with_invalidate || local;
}

// Everything about the copy that can be wrong before anything is sent. Keys of SEND and WRITE are looked up when
// their packets are built; those of READ and atomics here, because the peer acts before the answer is placed.
WcStatus validate(EngineCore& core, const Qp& qp, SendSlot& slot, const queues::SendWqe& wqe, const std::byte* tail) {
  if (!is_operation_of(qp.type, slot.opcode)) return WcStatus::local_qp_operation_error;
  if (slot.is_local()) {
    const bool bare = wqe.num_sge == 0 && !slot.has(SendFlag::inline_data);
    return bare ? WcStatus::success : WcStatus::local_qp_operation_error;
  }
  if (slot.has(SendFlag::inline_data)) {
    if (slot.is_read_or_atomic() || wqe.inline_length > qp.tx.max_inline) return WcStatus::local_qp_operation_error;
    slot.inline_length = wqe.inline_length;
    slot.length = wqe.inline_length;
    std::memcpy(slot.inline_data(), tail, slot.inline_length);
    return WcStatus::success;
  }
  if (wqe.num_sge > qp.tx.max_sge) return WcStatus::local_qp_operation_error;
  slot.num_sge = wqe.num_sge;
  std::memcpy(slot.sges(), tail, slot.num_sge * sizeof(Sge));
  uint64_t total = 0;
  for (uint32_t i = 0; i < slot.num_sge; ++i) total += slot.sges()[i].length;
  if (total > kMaxMessage) return WcStatus::local_length_error;
  slot.length = static_cast<uint32_t>(total);
  if (!slot.is_read_or_atomic()) return WcStatus::success;
  if (qp.max_rd_atomic == 0) return WcStatus::local_qp_operation_error;
  if (slot.is_atomic() && total != sizeof(uint64_t)) return WcStatus::local_length_error;
  for (uint32_t i = 0; i < slot.num_sge; ++i) {
    const Sge& sge = slot.sges()[i];
    if (sge.length == 0) continue;
    const auto place = core.translate(qp, sge.lkey, sge.addr, sge.length, Access::local_write);
    if (place.result != memory::AccessResult::ok) return WcStatus::local_protection_error;
  }
  return WcStatus::success;
}

void write_send_completion(EngineCore& core, Qp& qp, uint64_t wr_id, WrOpcode opcode, uint32_t length,
                           WcStatus status) {
  queues::Cqe cqe{};
  cqe.wr_id = wr_id;
  cqe.qpn = qp.qpn;
  cqe.byte_len = length;
  cqe.status = static_cast<uint8_t>(status);
  cqe.opcode = static_cast<uint8_t>(completion_opcode(opcode));
  cqe.timestamp_ns = static_cast<uint64_t>(core.now.count());
  (status == WcStatus::success ? core.counters.send_completions : core.counters.error_completions).add();
  if (!qp.send_cq->write(cqe, status != WcStatus::success, core.events)) fail_for_overrun(core, qp);
}

}  // namespace

void fail_for_overrun(EngineCore& core, Qp& qp) {
  if (qp.state == QpState::error) return;
  // C11-39: a completion queue overrun is an affiliated error of the QPs that write to it. The flush, which
  // can report nothing more to that queue, happens from the active list.
  qp.state = QpState::error;
  core.events.on_async_event(AsyncEventType::qp_fatal, qp.qpn);
  core.activate(qp);
}

Fetch fetch_wqe(EngineCore& core, Qp& qp) {
  auto& sq = qp.tx.sq;
  if (sq.available() == 0 || sq.next() - qp.tx.oldest >= sq.entries()) return Fetch::empty;
  queues::SendWqe wqe;
  const std::byte* from = sq.slot();
  std::memcpy(&wqe, from, sizeof wqe);
  SendSlot& slot = qp.slot(sq.next());
  slot = SendSlot{};
  slot.wr_id = wqe.wr_id;
  slot.remote_addr = wqe.remote_addr;
  slot.compare_add = wqe.atomic.compare_add;
  slot.swap = wqe.atomic.swap;
  slot.rkey = wqe.rkey;
  slot.imm_or_key = wqe.imm_or_key;
  slot.opcode = static_cast<WrOpcode>(wqe.opcode);
  slot.flags = static_cast<uint8_t>(wqe.flags);
  slot.status = validate(core, qp, slot, wqe, from + sizeof wqe);
  slot.packets = slot.length == 0 ? 1 : (slot.length + qp.mtu() - 1) >> qp.mtu_shift;
  if (slot.is_local()) slot.packets = 0;
  sq.advance(1);
  return Fetch::fetched;
}

void complete_oldest(EngineCore& core, Qp& qp, WcStatus status) {
  auto& tx = qp.tx;
  const SendSlot& slot = qp.slot(tx.oldest);
  if (slot.started && slot.is_read_or_atomic()) --tx.rd_atomic;
  ++tx.oldest;
  if (status != WcStatus::success || slot.has(SendFlag::signaled) || qp.signal_all) {
    // Before the completion: who has polled it finds room for another request.
    tx.sq.mirror(tx.oldest);
    write_send_completion(core, qp, slot.wr_id, slot.opcode, slot.length, status);
  }
}

void publish_completed(Qp& qp) { qp.tx.sq.mirror(qp.tx.oldest); }

void flush_sends(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  while (tx.oldest != tx.sq.next()) complete_oldest(core, qp, WcStatus::flushed);
  // What was posted and never fetched; only its id matters now. One pass over what is there, however fast more comes.
  for (uint32_t left = tx.sq.available(); left > 0; --left) {
    queues::SendWqe wqe;
    std::memcpy(&wqe, tx.sq.slot(), sizeof wqe);
    tx.sq.advance(1);
    tx.oldest = tx.sq.next();
    tx.sq.mirror(tx.oldest);
    write_send_completion(core, qp, wqe.wr_id, static_cast<WrOpcode>(wqe.opcode), 0, WcStatus::flushed);
  }
  tx.cursor = tx.sq.next();
  tx.cursor_packet = 0;
  publish_completed(qp);
}

void flush_posted(EngineCore& core, Qp& qp) {
  queues::RingHeader* receives = qp.cold->spec.rq.header;
  if (qp.rx.has_parked) forget_parked(core, qp);
  if (receives != nullptr) receives->wants_doorbell.store(1, std::memory_order_seq_cst);
  flush_sends(core, qp);
  flush_receives(core, qp);
}

void enter_send_queue_error(EngineCore& core, Qp& qp, WcStatus status) {
  if (qp.state != QpState::rts && qp.state != QpState::sqd) return;
  qp.state = QpState::sqe;
  complete_oldest(core, qp, status);
  flush_sends(core, qp);
}

void enter_error(EngineCore& core, Qp& qp, WcStatus status, Answers answers) {
  if (qp.state == QpState::error || qp.state == QpState::reset) return;
  qp.state = QpState::error;
  end_recovery(core, qp);
  auto& tx = qp.tx;
  if (status != WcStatus::success && tx.oldest != tx.sq.next()) complete_oldest(core, qp, status);
  tx.deadline = kNever;
  tx.rnr_waiting = false;
  deregulate(core, qp);
  qp.rx.message = Recv::none;
  if (answers == Answers::drop) {
    qp.rx.has_jobs = false;
    qp.cold->jobs_head = qp.cold->jobs_tail;
  }
  flush_posted(core, qp);
  if (qp.cold->srq != nullptr) core.events.on_async_event(AsyncEventType::last_wqe_reached, qp.qpn);
}

void check_drained(EngineCore& core, Qp& qp) {
  if (qp.state != QpState::sqd || qp.cold->sq_drained_reported) return;
  const auto& tx = qp.tx;
  if (tx.oldest != tx.sq.next() && qp.slot(tx.oldest).started) return;
  qp.cold->sq_drained_reported = true;
  if (qp.cold->attr.en_sqd_async_notify) core.events.on_async_event(AsyncEventType::sq_drained, qp.qpn);
}

}  // namespace uroce::transport
