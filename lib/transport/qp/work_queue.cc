#include "transport/qp/work_queue.h"

#include <algorithm>
#include <cstring>

#include "base/wr_opcodes.h"
#include "transport/qp/memory_access.h"

namespace uroce::transport {
namespace {

WcStatus validate_placement(const Qp& qp, const SendSlot& slot, const queues::SendWqe& wqe) {
  const bool bare = wqe.num_sge == 0 && !slot.has(SendFlag::inline_data);
  if (!bare || qp.max_rd_atomic == 0) return WcStatus::local_qp_operation_error;
  if (slot.opcode == WrOpcode::atomic_write) return WcStatus::success;
  const SendSlot::PlacementFlush flush = slot.placement_flush();
  if (flush.length > kMaxMessage) return WcStatus::local_length_error;
  const bool defined = flush.scope <= UINT8_MAX && is_placement_flush_target(PlacementFlags::from_bits(flush.placement),
                                                                             static_cast<FlushScope>(flush.scope));
  return defined ? WcStatus::success : WcStatus::local_qp_operation_error;
}

// Copies the entries, and returns the sum of their lengths.
uint64_t copy_entries(SendSlot& slot, const std::byte* tail) {
  if (slot.num_sge == 1) [[likely]] {
    std::memcpy(slot.sges(), tail, sizeof(Sge));
    return slot.sges()[0].length;
  }
  std::memcpy(slot.sges(), tail, slot.num_sge * sizeof(Sge));
  uint64_t total = 0;
  for (uint32_t i = 0; i < slot.num_sge; ++i) total += slot.sges()[i].length;
  return total;
}

// Checks the copy before any packet is sent. The keys of SEND and WRITE are checked when their packets are built. Those
// of READs and atomics are checked here, because the peer acts before the response is placed.
WcStatus validate(const Context& ctx, const Qp& qp, SendSlot& slot, const queues::SendWqe& wqe, const std::byte* tail) {
  if (!offers(qp.type, slot.opcode)) return WcStatus::local_qp_operation_error;
  if (slot.is_local()) {
    const bool bare = wqe.num_sge == 0 && !slot.has(SendFlag::inline_data);
    return bare ? WcStatus::success : WcStatus::local_qp_operation_error;
  }
  if (slot.is_placement()) return validate_placement(qp, slot, wqe);
  if (slot.has(SendFlag::inline_data)) {
    if (slot.is_read_or_atomic() || wqe.inline_length > qp.tx.max_inline) return WcStatus::local_qp_operation_error;
    slot.inline_length = wqe.inline_length;
    slot.length = wqe.inline_length;
    std::memcpy(slot.inline_data(), tail, slot.inline_length);
    return WcStatus::success;
  }
  if (wqe.num_sge > qp.tx.max_sge) return WcStatus::local_qp_operation_error;
  slot.num_sge = wqe.num_sge;
  const uint64_t total = copy_entries(slot, tail);
  if (total > kMaxMessage) return WcStatus::local_length_error;
  slot.length = static_cast<uint32_t>(total);
  if (!slot.is_read_or_atomic()) return WcStatus::success;
  if (qp.max_rd_atomic == 0) return WcStatus::local_qp_operation_error;
  if (slot.is_atomic() && total != sizeof(uint64_t)) return WcStatus::local_length_error;
  for (uint32_t i = 0; i < slot.num_sge; ++i) {
    const Sge& sge = slot.sges()[i];
    if (sge.length == 0) continue;
    const auto place = translate(ctx, qp, sge.lkey, sge.addr, sge.length, Access::local_write);
    if (place.result != memory::AccessResult::ok) return WcStatus::local_protection_error;
  }
  return WcStatus::success;
}

Outcome complete(const Context& ctx, const Qp& qp, uint64_t wr_id, WrOpcode opcode, uint32_t length, WcStatus status) {
  queues::Cqe cqe{};
  cqe.wr_id = wr_id;
  cqe.qpn = qp.qpn;
  cqe.byte_len = length;
  cqe.status = static_cast<uint8_t>(status);
  cqe.opcode = static_cast<uint8_t>(queues::completion_opcode(opcode));
  cqe.timestamp_ns = static_cast<uint64_t>(ctx.now.count());
  status == WcStatus::success ? ctx.counters.send_completions.add() : ctx.counters.add_error(status);
  return write_completion(ctx, *qp.send_cq, cqe, status != WcStatus::success);
}

}  // namespace

bool fetch_wqe(const Context& ctx, Qp& qp) {
  auto& sq = qp.tx.sq;
  if (sq.available() == 0 || sq.next() - qp.tx.oldest >= sq.entries()) return false;
  queues::SendWqe wqe;
  const std::byte* from = sq.slot();
  std::memcpy(&wqe, from, sizeof wqe);
  SendSlot& slot = qp.slot(sq.next());
  slot = SendSlot{};
  slot.wr_id = wqe.wr_id;
  slot.remote_addr = wqe.remote_addr;
  slot.operands() = {wqe.atomic.compare_add, wqe.atomic.swap};
  slot.rkey = wqe.rkey;
  slot.imm_or_key = wqe.imm_or_key;
  slot.opcode = static_cast<WrOpcode>(wqe.opcode);
  slot.flags = static_cast<uint8_t>(wqe.flags);
  if (qp.type == QpType::xrc_initiator) [[unlikely]]
    slot.set_remote_srqn(wqe.remote_srqn);
  slot.status = validate(ctx, qp, slot, wqe, from + sizeof wqe);
  slot.packets = slot.is_local() ? 0 : qp.packets_of(slot.length);
  sq.advance(1);
  return true;
}

Outcome complete_oldest(Context& ctx, Qp& qp, WcStatus status) {
  auto& tx = qp.tx;
  const SendSlot& slot = qp.slot(tx.oldest);
  if (slot.started && slot.has_response()) --tx.rd_atomic;
  ++tx.oldest;
  if (status == WcStatus::success && !slot.has(SendFlag::signaled) && !qp.signal_all) return {};
  // The slot is free before the completion is visible, so an application that polls it can post another request.
  tx.sq.mirror(tx.oldest);
  return complete(ctx, qp, slot.wr_id, slot.opcode, slot.length, status);
}

Outcome flush_sends(Context& ctx, Qp& qp, uint32_t count) {
  auto& tx = qp.tx;
  Outcome out;
  for (; count > 0 && tx.oldest != tx.sq.next(); --count) out |= complete_oldest(ctx, qp, WcStatus::flushed);
  // Of requests that were posted and never fetched only the ids matter.
  for (; count > 0; --count) {
    queues::SendWqe wqe;
    std::memcpy(&wqe, tx.sq.slot(), sizeof wqe);
    tx.sq.advance(1);
    tx.oldest = tx.sq.next();
    tx.sq.mirror(tx.oldest);
    out |= complete(ctx, qp, wqe.wr_id, static_cast<WrOpcode>(wqe.opcode), 0, WcStatus::flushed);
  }
  tx.cursor.move_to(tx.sq.next());
  publish_completed(qp);
  return out;
}

void report_drained(Context& ctx, Qp& qp) {
  if (qp.cold->sq_drained_reported) return;
  const auto& tx = qp.tx;
  if (tx.oldest != tx.sq.next() && qp.slot(tx.oldest).started) return;
  qp.cold->sq_drained_reported = true;
  if (qp.cold->attr.en_sqd_async_notify) ctx.events.on_async_event(AsyncEventType::sq_drained, qp.qpn);
}

SendSlot* find_request(Qp& qp, Psn psn, uint32_t& index) {
  for (; index != qp.tx.sq.next(); ++index) {
    SendSlot& slot = qp.slot(index);
    if (!slot.started) return nullptr;
    if (distance(psn, slot.end_psn()) < 0) return distance(psn, slot.first_psn) >= 0 ? &slot : nullptr;
  }
  return nullptr;
}

void rewind_to(Qp& qp, Psn psn) {
  auto& tx = qp.tx;
  for (uint32_t index = tx.oldest; index != tx.sq.next(); ++index) {
    const SendSlot& slot = qp.slot(index);
    if (!slot.started) break;
    if (distance(psn, slot.end_psn()) >= 0) continue;
    tx.cursor.move_to(index, static_cast<uint32_t>(std::max(0, distance(psn, slot.first_psn))));
    break;
  }
  tx.since_ack_request = 0;
}

}  // namespace uroce::transport
