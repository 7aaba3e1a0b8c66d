// The requester: segments work requests into packets (IBTA vol. 1, 9.7.2 to 9.7.4, 9.7.7).
#include "transport/aeth_codes.h"
#include "transport/engine_core.h"
#include "transport/segment.h"

namespace uroce::transport {
namespace {

using wire::Opcode;

// An ACK is asked for at least this often within a stream of packets, and several times within a window.
constexpr uint32_t kAckRequestInterval = 16;
uint32_t ack_interval(const Qp& qp) { return std::clamp(qp.tx.window / 4, 1u, kAckRequestInterval); }

// The PSN of the cursor's packet.
Psn cursor_psn(const Qp& qp, const SendSlot& slot) { return slot.first_psn + qp.tx.cursor_packet; }

bool beyond_credits(const Qp& qp, uint32_t ssn) {
  return qp.tx.credit_limited && distance(Psn(ssn), Psn(qp.tx.limit_ssn)) > 0;
}

// May the message of `slot`, not yet started, begin now?
bool may_start(const Qp& qp, const SendSlot& slot) {
  const auto& tx = qp.tx;
  if (qp.state != QpState::rts) return false;
  if (slot.status != WcStatus::success) return false;
  if (slot.has(SendFlag::fence) && tx.rd_atomic > 0) return false;
  // What is invalidated may be in use by what was posted before. A bind concerns what follows alone (10.8.3.3).
  if (slot.is_local()) return slot.opcode == WrOpcode::bind_mw || tx.cursor == tx.oldest;
  if (slot.is_read_or_atomic()) {
    return tx.rd_atomic < qp.max_rd_atomic && distance(tx.sent, tx.una) < static_cast<int32_t>(kMaxReadPackets);
  }
  // 9.7.7.2.5: without credits, one packet alone, and then wait for what the peer says.
  if (slot.takes_recv() && beyond_credits(qp, tx.ssn + 1) && tx.una != tx.sent) return false;
  return distance(tx.next, tx.una) < static_cast<int32_t>(tx.window);
}

void start(EngineCore& core, Qp& qp, SendSlot& slot) {
  auto& tx = qp.tx;
  slot.started = true;
  slot.first_psn = tx.next;
  if (slot.is_local()) {
    slot.status = run_local(core, qp, slot);
    return;
  }
  slot.ssn = ++tx.ssn & Psn::kMask;
  tx.next += slot.packets;
  if (slot.is_read_or_atomic()) ++tx.rd_atomic;
}

// Is anything certain to follow the cursor's last packet, so that its ACK can wait?
bool more_follows(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  if (tx.cursor + 1 == tx.sq.next() && fetch_wqe(core, qp) == Fetch::empty) return false;
  const SendSlot& after = qp.slot(tx.cursor + 1);
  if (after.is_local()) return false;  // Whatever comes behind it may have to wait for this one's ACK.
  return after.started || (may_start(qp, after) && !(after.takes_recv() && beyond_credits(qp, tx.ssn + 1)));
}

bool is_solicited(const SendSlot& slot, const Segment& segment) {
  return segment.last && slot.has(SendFlag::solicited) && slot.takes_recv();
}

// Puts one packet of a SEND or WRITE on the wire. False: a key or bound is wrong, and the slot's status says so.
bool emit_data(EngineCore& core, Qp& qp, SendSlot& slot, const Segment& segment, Psn psn, bool ack_request) {
  TxFrame& frame = core.builder.next();
  if (!gather(core, qp, slot, frame, segment.offset, segment.length)) {
    slot.status = WcStatus::local_protection_error;
    return false;
  }
  const Opcode opcode = data_opcode(slot, segment);
  const std::size_t extended = store_data_headers(FrameBuilder::extended_headers(frame, *qp.route), slot, opcode);
  if (ack_request) {
    qp.tx.since_ack_request = 0;
    qp.tx.recovery->ack_asked_at = core.now;
  }
  core.builder.finish(frame, qp, opcode, psn, extended,
                      {.ack_request = ack_request,
                       .solicited = is_solicited(slot, segment),
                       .tag = note_departure(core, qp, psn),
                       .ecn = qp.ecn});
  charge_data(core, qp, frame);
  return true;
}

// Is an ACK wanted though nothing about the packet itself asks for one?
bool ack_is_due(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  if (++tx.since_ack_request >= ack_interval(qp)) return true;
  // A slow sender must hear from its peer before it takes packets for lost.
  return tx.selective && core.now - tx.recovery->ack_asked_at > tx.recovery->rtt.smoothed() / 2;
}

// One packet of a SEND or WRITE. False: nothing was sent, for credits, window or a bad key.
bool send_data_packet(EngineCore& core, Qp& qp, SendSlot& slot) {
  auto& tx = qp.tx;
  const Psn psn = cursor_psn(qp, slot);
  if (distance(psn, tx.una) >= static_cast<int32_t>(tx.window)) return false;
  const bool limited = slot.takes_recv() && beyond_credits(qp, slot.ssn);
  if (limited && tx.cursor_packet > 0 && distance(tx.una, slot.first_psn) <= 0) return false;
  if (!may_send_data(core, qp)) return false;

  const Segment segment = segment_at_cursor(qp, slot);
  const bool again = distance(psn, tx.sent) < 0;
  bool ack_request = limited || ack_is_due(core, qp);
  if (segment.last && !ack_request) {
    ack_request = again || slot.has(SendFlag::signaled) || qp.signal_all || !more_follows(core, qp);
  }
  if (!emit_data(core, qp, slot, segment, psn, ack_request)) return false;
  step_cursor(qp, slot, 1);
  if (!again) tx.sent = psn + 1;
  return true;
}

// Asks for `packets` of a READ's answer, from its packet `first` on.
void emit_read_request(EngineCore& core, Qp& qp, SendSlot& slot, uint32_t first, uint32_t packets) {
  const Psn psn = slot.first_psn + first;
  const uint32_t offset = first << qp.mtu_shift;
  const uint64_t whole = uint64_t{packets} << qp.mtu_shift;
  const uint32_t length = static_cast<uint32_t>(std::min<uint64_t>(slot.length - offset, whole));
  TxFrame& frame = core.builder.next();
  wire::Reth{slot.remote_addr + offset, slot.rkey, length}.store(FrameBuilder::extended_headers(frame, *qp.route));
  const bool again = distance(psn, qp.tx.sent) < 0;
  core.builder.finish(frame, qp, Opcode::rc_read_request, psn, wire::Reth::kBytes,
                      {.tag = note_departure(core, qp, psn)});
  if (first > 0 || again) slot.asked_again = true;
}

// A READ request for what is still missing from the cursor on.
bool send_read_request(EngineCore& core, Qp& qp, SendSlot& slot) {
  auto& tx = qp.tx;
  const Psn psn = cursor_psn(qp, slot);
  // A long READ goes on with another request only when the one before is answered in full.
  if (tx.cursor_packet > 0 && psn == tx.sent && tx.una != psn) return false;
  uint32_t packets = std::min(slot.packets - tx.cursor_packet, kMaxReadPackets);
  uint32_t step = packets;
  if (distance(psn, tx.sent) < 0) {
    // What has arrived is not asked for again; what is missing behind it, when the turn comes to it (table 46 has a
    // duplicate READ ask for less, and Linux rxe then forgets what lies before).
    step = packets = std::min(packets, static_cast<uint32_t>(distance(tx.sent, psn)));
    const uint32_t known = std::min(packets, PsnSet::kSize);
    if (const uint32_t missing = tx.recovery->placed.next(psn, known); missing < known) packets = missing;
  }
  if (packets > 0) emit_read_request(core, qp, slot, tx.cursor_packet, packets);
  const Psn end = psn + packets;
  step_cursor(qp, slot, step);
  if (distance(end, tx.sent) > 0) tx.sent = end;
  return true;
}

void emit_atomic(EngineCore& core, Qp& qp, const SendSlot& slot) {
  wire::AtomicEth header{slot.remote_addr, slot.rkey, slot.compare_add, 0};
  Opcode opcode = Opcode::rc_fetch_add;
  if (slot.opcode == WrOpcode::compare_swap) {
    header.swap_add = slot.swap;
    header.compare = slot.compare_add;
    opcode = Opcode::rc_compare_swap;
  }
  TxFrame& frame = core.builder.next();
  header.store(FrameBuilder::extended_headers(frame, *qp.route));
  core.builder.finish(frame, qp, opcode, slot.first_psn, wire::AtomicEth::kBytes,
                      {.tag = note_departure(core, qp, slot.first_psn)});
}

bool send_atomic(EngineCore& core, Qp& qp, SendSlot& slot) {
  auto& tx = qp.tx;
  emit_atomic(core, qp, slot);
  if (distance(slot.first_psn, tx.sent) >= 0) tx.sent = slot.first_psn + 1;
  step_cursor(qp, slot, 1);
  return true;
}

// Run already; the cursor passes it, once more after each rewind.
bool pass_local(EngineCore& core, Qp& qp, const SendSlot& slot) {
  step_cursor(qp, slot, 0);
  if (complete_local(core, qp)) {
    publish_completed(qp);
    check_drained(core, qp);
  }
  return true;
}

bool send_packet(EngineCore& core, Qp& qp, SendSlot& slot) {
  if (slot.is_local()) return pass_local(core, qp, slot);
  if (slot.is_read()) return send_read_request(core, qp, slot);
  if (slot.is_atomic()) return send_atomic(core, qp, slot);
  return send_data_packet(core, qp, slot);
}

// The first packet after a rest is out.
void begin_waiting(EngineCore& core, Qp& qp) {
  qp.tx.recovery->progress_at = core.now;
  await_hello(core, qp);
  arm_ack_timer(core, qp);
}

}  // namespace

bool transmit_requests(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  if (qp.state == QpState::error) {
    flush_posted(core, qp);
    return false;
  }
  if ((qp.state != QpState::rts && qp.state != QpState::sqd) || tx.rnr_waiting) return false;
  if (tx.has_lost) {
    const bool more = transmit_lost(core, qp);
    if (tx.deadline == kNever && tx.una != tx.sent) begin_waiting(core, qp);
    if (more) return true;
  }
  while (!core.builder.full()) {
    if (tx.cursor == tx.sq.next() && (qp.state != QpState::rts || fetch_wqe(core, qp) == Fetch::empty)) return false;
    SendSlot& slot = qp.slot(tx.cursor);
    const bool ready = slot.started || may_start(qp, slot);
    if (ready && !slot.started) start(core, qp, slot);
    if (!ready || slot.status != WcStatus::success || !send_packet(core, qp, slot)) {
      // A request that was found wrong completes in its turn, after all before it.
      if (slot.status != WcStatus::success && tx.cursor == tx.oldest) enter_error(core, qp, slot.status);
      return false;
    }
    if (tx.deadline == kNever && tx.una != tx.sent) begin_waiting(core, qp);
  }
  return true;
}

SendSlot* find_request(Qp& qp, Psn psn, uint32_t& index) {
  for (; index != qp.tx.sq.next(); ++index) {
    SendSlot& slot = qp.slot(index);
    if (!slot.started) return nullptr;
    if (distance(psn, slot.end_psn()) < 0) return distance(psn, slot.first_psn) >= 0 ? &slot : nullptr;
  }
  return nullptr;
}

void rewind_to(EngineCore& core, Qp& qp, Psn psn) {
  auto& tx = qp.tx;
  for (uint32_t index = tx.oldest; index != tx.sq.next(); ++index) {
    const SendSlot& slot = qp.slot(index);
    if (!slot.started) break;
    if (distance(psn, slot.end_psn()) >= 0) continue;
    tx.cursor = index;
    tx.cursor_packet = static_cast<uint32_t>(std::max(0, distance(psn, slot.first_psn)));
    break;
  }
  tx.since_ack_request = 0;
  core.activate(qp);
}

bool transmit_lost(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  uint32_t index = tx.oldest;
  Psn at = tx.una;
  const Psn end = tx.una + std::min(static_cast<uint32_t>(distance(tx.sent, tx.una)), PsnSet::kSize);
  for (;;) {
    at += r.lost.next(at, static_cast<uint32_t>(distance(end, at)));
    if (at == end) break;
    if (core.builder.full()) return true;
    if (!may_send_data(core, qp)) return false;
    r.lost.remove(at);
    SendSlot* slot = find_request(qp, at, index);
    if (slot == nullptr || slot->status != WcStatus::success) continue;
    const uint32_t packet = static_cast<uint32_t>(distance(at, slot->first_psn));
    if (slot->is_atomic()) {
      emit_atomic(core, qp, *slot);
    } else if (slot->is_read()) {
      // Up to what has arrived, or what cannot have left the peer yet.
      const bool part = distance(r.horizon, at) > 0 && distance(r.horizon, slot->end_psn()) < 0;
      const Psn until = part ? r.horizon : slot->end_psn();
      const uint32_t wanted = std::min(static_cast<uint32_t>(distance(until, at)), kMaxReadPackets);
      const uint32_t known = std::min(wanted, PsnSet::kSize);
      const uint32_t missing = r.placed.next(at, known);
      emit_read_request(core, qp, *slot, packet, missing < known ? missing : wanted);
    } else if (!emit_data(core, qp, *slot, segment_at(qp, *slot, packet), at, true)) {
      rewind_to(core, qp, at);  // There the request waits for its turn to fail.
    }
  }
  tx.has_lost = false;
  return false;
}

void ask_for_ack(EngineCore& core, Qp& qp) {
  const auto& tx = qp.tx;
  if (tx.una == tx.sent) return;
  const Psn newest = tx.sent - 1;
  for (uint32_t index = tx.oldest; index != tx.sq.next(); ++index) {
    const SendSlot& slot = qp.slot(index);
    if (distance(newest, slot.end_psn()) >= 0) continue;
    // A READ or atomic is answered in any case.
    if (!slot.is_read_or_atomic()) rewind_to(core, qp, newest);
    return;
  }
}

}  // namespace uroce::transport
