// The completer: ACKs, NAKs, READ responses and atomic answers (IBTA vol. 1, 9.7.5 to 9.7.8).
#include "transport/aeth_codes.h"
#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

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

// `behind`: answers before it are missing. Asking for them costs no retry; the ACK timer bounds it.
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

}  // namespace

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
    SendSlot& slot = qp.slot(tx.oldest);
    if (!slot.started) break;
    if (slot.is_read_or_atomic()) {
      if (r.held_count != 0 && !place_held(core, qp, slot)) return true;
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

void acknowledge(EngineCore& core, Qp& qp, Psn end) {
  const Psn before = qp.tx.una;
  if (distance(end, qp.tx.acked) > 0) qp.tx.acked = end;
  if (advance(core, qp)) progressed(core, qp, before);
}

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

void forget_marks(Recovery& r, Psn from, uint32_t count) {
  r.sacked.remove_from(from, count);
  r.placed.remove_from(from, count);
  r.lost.remove_from(from, count);
  r.marked = !r.sacked.empty() || !r.placed.empty() || !r.lost.empty();
}

void progressed(EngineCore& core, Qp& qp, Psn before) {
  if (qp.state == QpState::error) return core.activate(qp);
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
  if (awaits_turn(qp)) return arm_ack_timer(core, qp);
  if (tx.selective) return on_quiet(core, qp);
  core.counters.timeouts.add();
  tx.recovery->cause = Cause::timeout;
  tx.recovery->open_window = std::min(tx.window, kWindowAfterTimeout);
  if (qp.cold->congestion != nullptr) qp.cold->congestion->on_timeout(core.now);
  update_window(core, qp);
  retry_from(core, qp, tx.una);
}

}  // namespace uroce::transport
