// Answers of READs and atomics (IBTA vol. 1, 9.7.5.1). They are placed in the order of their requests, because later
// ones may go to the same memory; within one READ, as they come.
#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

// The READ or atomic that `packet` answers. Anything else is counted. What was posted before it has been executed, or
// there would be no answer.
SendSlot* awaited(EngineCore& core, Qp& qp, const wire::Packet& packet, bool atomic) {
  auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  if (distance(psn, tx.sent) >= 0 || distance(psn, tx.una) < 0) {
    core.count_drop(wire::Drop::response_stale);
    return nullptr;
  }
  uint32_t index = tx.oldest;
  SendSlot* slot = find_request(qp, psn, index);
  if (slot == nullptr || !(atomic ? slot->is_atomic() : slot->is_read())) {
    // An answer where none is due shows at least that what is before it has been executed.
    if (slot != nullptr) acknowledge(core, qp, psn);
    core.count_drop(wire::Drop::response_unexpected);
    return nullptr;
  }
  acknowledge(core, qp, slot->first_psn);
  if (qp.state == QpState::error) return nullptr;
  if (distance(psn, tx.una) >= static_cast<int32_t>(PsnSet::kSize)) {
    core.count_drop(wire::Drop::psn_out_of_order);
    ask_for_missing(core, qp, psn);
    return nullptr;
  }
  if (!tx.recovery->marked || !tx.recovery->placed.has(psn)) return slot;
  core.count_drop(wire::Drop::response_stale);
  return nullptr;
}

// Places bytes at `offset` of the request's own scatter list.
bool fill(EngineCore& core, Qp& qp, const SendSlot& slot, uint32_t offset, std::span<const std::byte> bytes) {
  return scatter(core, qp, {slot.sges(), slot.num_sge}, offset, bytes) == WcStatus::success;
}

// A READ that went out in more than one request.
bool in_parts(const SendSlot& slot) { return slot.asked_again || slot.packets > kMaxReadPackets; }

// First/Middle/Last/Only must agree with where the packet stands, and so must its length (9.7.5.1.4). Where a READ
// was asked for in parts, each part has a First and a Last of its own.
bool read_response_fits(const Qp& qp, const SendSlot& slot, const wire::Packet& packet, uint32_t index) {
  const uint32_t offset = index << qp.mtu_shift;
  const bool first = packet.op().flags.has(wire::Op::first);
  const bool last = packet.op().flags.has(wire::Op::last);
  if (index == 0 ? !first : first && !slot.asked_again) return false;
  if (index + 1 == slot.packets ? !last : last && !in_parts(slot)) return false;
  return packet.payload.size() == std::min(slot.length - offset, qp.mtu());
}

// Puts an answer where it belongs. False: it is wrong, and the QP is in error.
bool place(EngineCore& core, Qp& qp, const SendSlot& slot, const wire::Packet& packet) {
  if (slot.is_atomic()) {
    // The result is delivered in the host's byte order (10.7.2.3).
    const uint64_t result = packet.atomic_ack;
    if (fill(core, qp, slot, 0, std::as_bytes(std::span(&result, 1)))) return true;
    enter_error(core, qp, WcStatus::local_protection_error);
    return false;
  }
  const uint32_t index = static_cast<uint32_t>(distance(packet.bth.psn, slot.first_psn));
  if (!read_response_fits(qp, slot, packet, index)) {
    core.count_drop(wire::Drop::payload_length);
    enter_error(core, qp, WcStatus::bad_response);
    return false;
  }
  if (fill(core, qp, slot, index << qp.mtu_shift, packet.payload)) return true;
  enter_error(core, qp, WcStatus::local_protection_error);
  return false;
}

// Keeps an answer whose request is not the oldest. False: there is no room.
bool hold(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  Recovery& r = *qp.tx.recovery;
  const Psn psn = packet.bth.psn;
  const bool near = distance(psn, qp.tx.una) < static_cast<int32_t>(r.held.size());
  const uint16_t number = near && r.held_place(psn) == 0 ? core.parking.keep(packet.bytes()) : uint16_t{0};
  if (number == 0) {
    core.count_drop(wire::Drop::parking_full);
    return false;
  }
  r.held_place(psn) = number;
  ++r.held_count;
  core.counters.parked_packets.add();
  return true;
}

// An answer that is not the next one.
void on_early(EngineCore& core, Qp& qp, const SendSlot& slot, const wire::Packet& packet) {
  auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  const bool oldest = &slot == &qp.slot(tx.oldest);
  if (oldest && !place(core, qp, slot, packet)) return;
  if (!oldest && !hold(core, qp, packet)) return ask_for_missing(core, qp, psn);
  tx.recovery->placed.add(psn);
  tx.recovery->marked = true;
  ask_for_missing(core, qp, psn + 1);
}

void on_answer(EngineCore& core, Qp& qp, SendSlot& slot, const wire::Packet& packet) {
  auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  // Of answers that queue behind others, the time tells nothing.
  if (psn == slot.first_psn && tx.rd_atomic == 1) sample_rtt(core, qp, psn);
  if (packet.op().flags.has(wire::Op::aeth)) take_credits(core, qp, packet.aeth);
  if (psn != tx.una) return on_early(core, qp, slot, packet);
  Recovery& r = *tx.recovery;
  if (!slot.asked_again) note_late(qp, psn, r.horizon);
  if (!place(core, qp, slot, packet)) return;
  ++tx.una;
  if (r.marked) forget_marks(r, psn, 1);
  if (tx.una == slot.end_psn()) complete_oldest(core, qp, WcStatus::success);
  advance(core, qp);
  if (qp.state == QpState::error) return;
  progressed(core, qp, psn);
  // What follows may be missing as well, and its successors here.
  if (distance(r.horizon, tx.una) > 0) ask_for_missing(core, qp, r.horizon);
}

}  // namespace

void on_read_response(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  if (SendSlot* slot = awaited(core, qp, packet, false)) on_answer(core, qp, *slot, packet);
}

void on_atomic_ack(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  if (SendSlot* slot = awaited(core, qp, packet, true)) on_answer(core, qp, *slot, packet);
}

bool place_held(EngineCore& core, Qp& qp, SendSlot& slot) {
  Recovery& r = *qp.tx.recovery;
  const auto span = std::min({static_cast<std::size_t>(distance(slot.end_psn(), qp.tx.una)), r.held.size()});
  const Psn una = qp.tx.una;
  bool good = true;
  for (uint32_t i = 0; i < span && r.held_count != 0; ++i) {
    const uint16_t number = std::exchange(r.held_place(una + i), uint16_t{0});
    if (number == 0) continue;
    --r.held_count;
    // Its ICRC was right when it arrived.
    const auto packet = wire::parse(core.parking.frame(number), wire::Icrc::skip);
    good = good && packet && place(core, qp, slot, *packet);
    core.parking.release(number);
  }
  return good;
}

void forget_held(EngineCore& core, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  for (std::size_t i = 0; i < r.held.size() && r.held_count != 0; ++i) {
    if (r.held[i] == 0) continue;
    core.parking.release(std::exchange(r.held[i], uint16_t{0}));
    --r.held_count;
  }
}

}  // namespace uroce::transport
