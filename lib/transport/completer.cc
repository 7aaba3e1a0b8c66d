// The completer: ACKs, NAKs, READ responses and atomic answers (IBTA vol. 1, 9.7.5 to 9.7.8).
#include "transport/aeth_codes.h"
#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

// Una goes on as far as what is known to have arrived allows: an ACK for SENDs and WRITEs, and every packet of the
// answer for READs and atomics. Completes what is passed. True: something was.
bool advance(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  const Psn before = tx.una;
  bool moved = false;
  while (tx.oldest != tx.sq.next()) {
    if (complete_local(core, qp)) {
      moved = true;
      continue;
    }
    const SendSlot& slot = qp.slot(tx.oldest);
    if (!slot.started) break;
    if (slot.is_read_or_atomic()) {
      const auto left = std::min(static_cast<uint32_t>(distance(slot.end_psn(), tx.una)), PsnSet::kSize);
      if (r.marked) tx.una += r.placed.next(tx.una, left, false);
    } else {
      const Psn end = distance(tx.acked, slot.end_psn()) < 0 ? tx.acked : slot.end_psn();
      if (distance(end, tx.una) > 0) tx.una = end;
    }
    if (tx.una != slot.end_psn()) break;
    moved = true;
    complete_oldest(core, qp, WcStatus::success);
  }
  const uint32_t passed = static_cast<uint32_t>(distance(tx.una, before));
  if (passed > 0 && r.marked) forget_marks(r, before, passed);
  return moved || passed > 0;
}

// The peer has executed everything before `end`.
void note_executed(Qp& qp, Psn end) {
  if (distance(end, qp.tx.acked) > 0) qp.tx.acked = end;
}

// Everything before `end` has been executed.
void acknowledge(EngineCore& core, Qp& qp, Psn end) {
  const Psn before = qp.tx.una;
  note_executed(qp, end);
  if (advance(core, qp)) progressed(core, qp, before);
}

// Credits may rise or fall; they never take back what has been sent (9.7.7.2.4).
void take_credits(EngineCore& core, Qp& qp, const wire::Aeth& aeth) {
  auto& tx = qp.tx;
  if (aeth.kind() != wire::AethKind::ack) return;
  if (aeth.code() == wire::Aeth::kNoCreditLimit) {
    tx.credit_limited = false;
    return;
  }
  const uint32_t limit = (aeth.msn + credits_of(aeth.code())) & Psn::kMask;
  if (tx.credit_limited && limit == tx.limit_ssn) return;
  tx.credit_limited = true;
  tx.limit_ssn = limit;
  core.activate(qp);
}

// Loss is certain or likely: send again from `psn`, within the retry budget.
void retry_from(EngineCore& core, Qp& qp, Psn psn) {
  if (spend_retry(core, qp)) rewind_to(core, qp, psn);
}

WcStatus status_of(wire::NakCode code) {
  switch (code) {
    case wire::NakCode::invalid_request: return WcStatus::remote_invalid_request;
    case wire::NakCode::remote_access: return WcStatus::remote_access_error;
    case wire::NakCode::remote_operational: return WcStatus::remote_operation_error;
    default: return WcStatus::bad_response;
  }
}

void on_rnr_nak(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  auto& tx = qp.tx;
  core.counters.rnr_naks_received.add();
  if (tx.rnr_waiting) return;
  constexpr uint8_t kForever = 7;
  if (qp.rnr_retry != kForever && tx.rnr_retries_left == 0) {
    enter_error(core, qp, WcStatus::rnr_retry_exceeded);
    return;
  }
  if (qp.rnr_retry != kForever) --tx.rnr_retries_left;
  tx.retries_left = qp.retry_cnt;  // The peer is there, and this round has a budget of its own.
  tx.rnr_waiting = true;
  core.set_deadline(qp, core.now + rnr_delay(packet.aeth.code()));
  if (tx.selective) {
    mark_lost(core, qp, packet.bth.psn, Cause::nak);  // What came behind it has been kept.
  } else {
    rewind_to(core, qp, packet.bth.psn);
  }
}

// `behind`: answers before it are missing, and a retry has been spent on them.
void on_nak(EngineCore& core, Qp& qp, const wire::Packet& packet, bool behind) {
  core.counters.naks_received.add();
  const auto code = static_cast<wire::NakCode>(packet.aeth.code());
  if (code == wire::NakCode::psn_sequence) {
    // Linux rxe says so, in spite of 9.7.5.2.8, of what follows a request that it answered with an RNR NAK. All of it
    // is sent again after the wait.
    if (qp.tx.rnr_waiting) return;
    if (qp.tx.selective) distrust_peer(core, qp);
    qp.tx.recovery->cause = Cause::nak;
    behind ? rewind_to(core, qp, packet.bth.psn) : retry_from(core, qp, packet.bth.psn);
    return;
  }
  enter_error(core, qp, status_of(code));
}

bool overlap(EngineCore& core, const Qp& qp, const Sge& a, const Sge& b) {
  if (a.length == 0 || b.length == 0) return false;
  if (a.lkey == b.lkey) return a.addr < b.addr + b.length && b.addr < a.addr + a.length;
  const auto one = core.translate(qp, a.lkey, a.addr, a.length, Access::local_write);
  const auto other = core.translate(qp, b.lkey, b.addr, b.length, Access::local_write);
  return one.host < other.host + b.length && other.host < one.host + a.length;
}

// May the answer to `slot` be placed while those before it are missing? Where they go to the same memory the last
// posted must win.
bool may_come_early(EngineCore& core, const Qp& qp, const SendSlot& slot) {
  for (uint32_t index = qp.tx.oldest; &qp.slot(index) != &slot; ++index) {
    const SendSlot& earlier = qp.slot(index);
    if (!earlier.is_read_or_atomic()) continue;
    for (uint32_t i = 0; i < earlier.num_sge; ++i) {
      for (uint32_t k = 0; k < slot.num_sge; ++k) {
        if (overlap(core, qp, earlier.sges()[i], slot.sges()[k])) return false;
      }
    }
  }
  return true;
}

// The READ or atomic that `packet` answers. Anything else is counted. What was posted before it has been executed, or
// there would be no answer.
SendSlot* awaited(EngineCore& core, Qp& qp, const wire::Packet& packet, bool atomic) {
  auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  if (distance(psn, tx.sent) >= 0 || distance(psn, tx.una) < 0) {
    core.count_drop(wire::Drop::response_stale);
    return nullptr;
  }
  SendSlot* slot = find_request(qp, psn, tx.oldest);
  if (slot == nullptr || !(atomic ? slot->is_atomic() : slot->is_read())) {
    // An answer where none is due shows at least that what is before it has been executed.
    if (slot != nullptr) acknowledge(core, qp, psn);
    core.count_drop(wire::Drop::response_unexpected);
    return nullptr;
  }
  acknowledge(core, qp, slot->first_psn);
  if (qp.state == QpState::error) return nullptr;
  if (distance(psn, tx.una) < static_cast<int32_t>(PsnSet::kSize) && may_come_early(core, qp, *slot)) {
    if (!tx.recovery->marked || !tx.recovery->placed.has(psn)) return slot;
    core.count_drop(wire::Drop::response_stale);
    return nullptr;
  }
  core.count_drop(wire::Drop::psn_out_of_order);
  ask_for_missing(core, qp, psn);
  return nullptr;
}

// The answer with `psn` is where it belongs.
void note_placed(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  const Psn psn = packet.bth.psn;
  const Psn before = tx.una;
  if (packet.op().flags.has(wire::Op::aeth)) take_credits(core, qp, packet.aeth);
  if (psn != tx.una) {
    r.placed.add(psn);
    r.marked = true;
    ask_for_missing(core, qp, psn + 1);
    return;
  }
  SendSlot& slot = qp.slot(tx.oldest);
  if (!slot.asked_again) note_late(qp, psn);
  ++tx.una;
  if (r.marked) forget_marks(r, psn, 1);
  if (tx.una == slot.end_psn()) complete_oldest(core, qp, WcStatus::success);
  advance(core, qp);
  progressed(core, qp, before);
  // What follows may be missing too, and its successor here.
  if (r.marked && qp.state != QpState::error) ask_for_missing(core, qp, r.horizon);
}

// Places bytes at `offset` of the request's own scatter list.
bool scatter(EngineCore& core, Qp& qp, const SendSlot& slot, uint32_t offset, std::span<const std::byte> bytes) {
  for (uint32_t i = 0; i < slot.num_sge && !bytes.empty(); ++i) {
    const Sge& sge = slot.sges()[i];
    if (offset >= sge.length) {
      offset -= sge.length;
      continue;
    }
    const std::size_t piece = std::min<std::size_t>(bytes.size(), sge.length - offset);
    const auto place = core.translate(qp, sge.lkey, sge.addr + offset, piece, Access::local_write);
    if (place.result != memory::AccessResult::ok) return false;
    std::memcpy(place.host, bytes.data(), piece);
    bytes = bytes.subspan(piece);
    offset = 0;
  }
  return bytes.empty();
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

}  // namespace

void forget_marks(Recovery& r, Psn from, uint32_t count) {
  r.sacked.remove_from(from, count);
  r.placed.remove_from(from, count);
  r.lost.remove_from(from, count);
  r.marked = !r.sacked.empty() || !r.placed.empty() || !r.lost.empty();
}

void progressed(EngineCore& core, Qp& qp, Psn before) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  const uint32_t packets = static_cast<uint32_t>(distance(tx.una, before));
  r.open_window = std::min(core.config.window_packets, r.open_window + packets);
  r.quiet_rounds = 0;
  r.progress_at = core.now;
  update_window(core, qp);
  tx.retries_left = qp.retry_cnt;
  tx.rnr_retries_left = qp.rnr_retry;
  // A rewound cursor skips what has been acknowledged meanwhile.
  if (static_cast<int32_t>(tx.cursor - tx.oldest) < 0) {
    tx.cursor = tx.oldest;
    tx.cursor_packet = 0;
  }
  if (tx.cursor == tx.oldest && tx.cursor != tx.sq.next() && qp.slot(tx.cursor).started) {
    const int32_t acked = distance(tx.una, qp.slot(tx.cursor).first_psn);
    if (acked > static_cast<int32_t>(tx.cursor_packet)) tx.cursor_packet = static_cast<uint32_t>(acked);
  }
  if (!tx.rnr_waiting) arm_ack_timer(core, qp);
  publish_completed(qp);
  check_drained(core, qp);
  core.activate(qp);
}

void arm_ack_timer(EngineCore& core, Qp& qp) {
  if (qp.tx.una == qp.tx.sent) return core.set_deadline(qp, kNever);
  if (qp.tx.selective) return core.set_deadline(qp, core.now + probe_timeout(qp, qp.tx.recovery->quiet_rounds));
  core.set_deadline(qp, qp.timeout == 0 ? kNever : core.now + ack_timeout(qp.timeout));
}

bool spend_retry(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  if (tx.retries_left == 0) {
    enter_error(core, qp, WcStatus::retry_exceeded);
    return false;
  }
  --tx.retries_left;
  if (!tx.rnr_waiting) arm_ack_timer(core, qp);
  return true;
}

void on_reply(EngineCore& core, Qp& qp, const wire::Packet& packet, Psn executed) {
  const wire::AethKind kind = packet.aeth.kind();
  acknowledge(core, qp, executed);
  if (qp.state == QpState::error) return;
  // Answers that must have come before this are missing; their requests are what it says nothing about.
  const bool behind = distance(executed, qp.tx.una) > 0;
  if (behind) ask_for_missing(core, qp, executed);
  switch (kind) {
    case wire::AethKind::ack: take_credits(core, qp, packet.aeth); break;
    case wire::AethKind::rnr_nak: on_rnr_nak(core, qp, packet); break;
    case wire::AethKind::nak:
      // 9.7.5.1.1: an error comes after the answers before it.
      if (!behind || static_cast<wire::NakCode>(packet.aeth.code()) == wire::NakCode::psn_sequence) {
        on_nak(core, qp, packet, behind);
      }
      break;
    default: core.count_drop(wire::Drop::response_unexpected); break;
  }
}

void on_ack(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  const auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  const bool ack = packet.aeth.kind() == wire::AethKind::ack;
  if (ack) core.counters.acks_received.add();
  // 9.7.5.1.3: ghost and duplicate ACKs are dropped.
  if (distance(psn, tx.sent) >= 0 || distance(psn, tx.una) < (ack ? -1 : 0)) {
    core.count_drop(wire::Drop::response_stale);
    return;
  }
  const Psn before = tx.una;
  const Nanos rtt = ack && distance(psn, tx.una) >= 0 ? sample_rtt(core, qp, psn) : Nanos(0);
  // 9.7.5.2: a NAK acknowledges all packets before its own.
  on_reply(core, qp, packet, ack ? psn + 1 : psn);
  tell_congestion_control(core, qp, rtt, static_cast<uint32_t>(distance(tx.una, before)));
}

void on_read_response(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  SendSlot* slot = awaited(core, qp, packet, false);
  if (slot == nullptr) return;
  const uint32_t index = static_cast<uint32_t>(distance(packet.bth.psn, slot->first_psn));
  if (!read_response_fits(qp, *slot, packet, index)) {
    core.count_drop(wire::Drop::payload_length);
    enter_error(core, qp, WcStatus::bad_response);
    return;
  }
  if (!scatter(core, qp, *slot, index << qp.mtu_shift, packet.payload)) {
    enter_error(core, qp, WcStatus::local_protection_error);
    return;
  }
  if (index == 0 && qp.tx.rd_atomic == 1) sample_rtt(core, qp, packet.bth.psn);
  note_placed(core, qp, packet);
}

void on_atomic_ack(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  SendSlot* slot = awaited(core, qp, packet, true);
  if (slot == nullptr) return;
  // The result is delivered in the host's byte order (10.7.2.3).
  const uint64_t result = packet.atomic_ack;
  if (!scatter(core, qp, *slot, 0, std::as_bytes(std::span(&result, 1)))) {
    enter_error(core, qp, WcStatus::local_protection_error);
    return;
  }
  sample_rtt(core, qp, packet.bth.psn);
  note_placed(core, qp, packet);
}

void on_timer(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  if (tx.deadline == kNever) return;
  if (core.now < tx.deadline) {
    core.set_deadline(qp, tx.deadline);
    return;
  }
  tx.deadline = kNever;
  if (tx.rnr_waiting) {
    tx.rnr_waiting = false;
    core.activate(qp);
    return;
  }
  if (tx.una == tx.sent) return;
  if (tx.selective) return on_quiet(core, qp);
  core.counters.timeouts.add();
  tx.recovery->cause = Cause::timeout;
  tx.recovery->open_window = std::min(tx.window, kWindowAfterTimeout);
  update_window(core, qp);
  if (qp.cold->congestion != nullptr) qp.cold->congestion->on_timeout(core.now);
  retry_from(core, qp, tx.una);
}

}  // namespace uroce::transport
