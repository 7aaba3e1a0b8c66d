// The completer: ACKs, NAKs, READ responses and atomic answers (IBTA vol. 1, 9.7.5 to 9.7.8).
#include "transport/aeth_codes.h"
#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

// Packets that may be out after a timeout. It may just be that the peer is slow, and then each packet that is sent
// again makes it slower: a whole window at each timeout would keep it busy with duplicates until the retries are used
// up.
constexpr uint32_t kWindowAfterTimeout = 4;

// After WQEs completed or packets were acknowledged, those from `before` on: what was lost is found again, timers start
// afresh, and the window that a timeout closed opens by as much.
void progressed(EngineCore& core, Qp& qp, Psn before) {
  auto& tx = qp.tx;
  tx.window = std::min(core.config.window_packets, tx.window + static_cast<uint32_t>(distance(tx.una, before)));
  complete_local(core, qp);
  tx.retries_left = qp.retry_cnt;
  tx.rnr_retries_left = qp.rnr_retry;
  tx.rewound = false;
  // A rewound cursor skips what has been acknowledged meanwhile.
  if (static_cast<int32_t>(tx.cursor - tx.oldest) < 0) {
    tx.cursor = tx.oldest;
    tx.cursor_packet = 0;
  }
  if (tx.cursor == tx.oldest && tx.cursor != tx.sq.next() && qp.slot(tx.cursor).started) {
    const int32_t acked = distance(tx.una, qp.slot(tx.cursor).first_psn);
    if (acked > static_cast<int32_t>(tx.cursor_packet)) tx.cursor_packet = static_cast<uint32_t>(acked);
  }
  if (!tx.rnr_waiting) {
    const bool waiting = tx.una != tx.sent && qp.timeout != 0;
    core.set_deadline(qp, waiting ? core.now + ack_timeout(qp.timeout) : kNever);
  }
  publish_completed(qp);
  check_drained(core, qp);
  core.activate(qp);
}

enum class Acked { all, behind_response };

// Everything up to and including `psn` has arrived. Stops before a READ or atomic whose answer has not been
// seen, since only the answer completes it.
Acked acknowledge_through(EngineCore& core, Qp& qp, Psn psn) {
  auto& tx = qp.tx;
  const Psn before = tx.una;
  bool moved = false;
  Acked result = Acked::all;
  while (tx.oldest != tx.sq.next()) {
    if (complete_local(core, qp)) {
      moved = true;
      continue;
    }
    const SendSlot& slot = qp.slot(tx.oldest);
    if (!slot.started || distance(psn, slot.first_psn) < 0) break;
    if (slot.is_read_or_atomic()) {
      result = Acked::behind_response;
      break;
    }
    if (distance(psn, slot.end_psn()) < -1) {
      if (distance(psn + 1, tx.una) > 0) {
        tx.una = psn + 1;
        moved = true;
      }
      break;
    }
    moved = true;
    tx.una = slot.end_psn();
    complete_oldest(core, qp, WcStatus::success);
  }
  if (moved) progressed(core, qp, before);
  return result;
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
  auto& tx = qp.tx;
  if (tx.retries_left == 0) {
    enter_error(core, qp, WcStatus::retry_exceeded);
    return;
  }
  --tx.retries_left;
  tx.rewound = true;
  if (qp.timeout != 0 && !tx.rnr_waiting) core.set_deadline(qp, core.now + ack_timeout(qp.timeout));
  rewind_to(core, qp, psn);
}

// A later response shows that one before it was lost (9.7.5.1.1 "implied NAK"); acted upon once per gap.
void implied_nak(EngineCore& core, Qp& qp) {
  if (!qp.tx.rewound) retry_from(core, qp, qp.tx.una);
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
  rewind_to(core, qp, packet.bth.psn);
}

void on_nak(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  core.counters.naks_received.add();
  const auto code = static_cast<wire::NakCode>(packet.aeth.code());
  if (code == wire::NakCode::psn_sequence) {
    // Linux rxe says so, in spite of 9.7.5.2.8, of what follows a request that it answered with an RNR NAK. All of it
    // is sent again after the wait.
    if (!qp.tx.rnr_waiting) retry_from(core, qp, packet.bth.psn);
    return;
  }
  enter_error(core, qp, status_of(code));
}

// The SEND and WRITE requests before a response have been executed, or it could not have been sent.
void acknowledge_before(EngineCore& core, Qp& qp, Psn response) {
  if (distance(response, qp.tx.una) > 0) acknowledge_through(core, qp, response - 1);
}

// Is `packet` the answer that the oldest READ or atomic waits for? Anything else is counted and acted upon here.
SendSlot* awaited(EngineCore& core, Qp& qp, const wire::Packet& packet, bool atomic) {
  auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  if (distance(psn, tx.sent) >= 0 || distance(psn, tx.una) < 0) {
    core.count_drop(wire::Drop::response_stale);
    return nullptr;
  }
  acknowledge_before(core, qp, psn);
  if (tx.oldest == tx.sq.next()) {
    core.count_drop(wire::Drop::response_unexpected);
    return nullptr;
  }
  SendSlot& slot = qp.slot(tx.oldest);
  if (psn != tx.una) {
    core.count_drop(wire::Drop::psn_out_of_order);
    implied_nak(core, qp);
    return nullptr;
  }
  if (!(atomic ? slot.is_atomic() : slot.is_read())) {
    core.count_drop(wire::Drop::response_unexpected);
    return nullptr;
  }
  return &slot;
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

// First/Middle/Last/Only must agree with where the packet stands, and so must its length (9.7.5.1.4).
bool read_response_fits(const Qp& qp, const SendSlot& slot, const wire::Packet& packet, uint32_t index) {
  const uint32_t offset = index << qp.mtu_shift;
  const bool first = packet.op().flags.has(wire::Op::first);
  const bool last = packet.op().flags.has(wire::Op::last);
  const bool ends_message = index + 1 == slot.packets;
  // A READ in several requests has a Last for each of them.
  const bool ends_request = qp.tx.una + 1 == qp.tx.sent;
  // A First or Only begins the answer to a request. Of requests for the rest of a READ, only the newest can begin at
  // the oldest outstanding PSN: each begins at what that was when it left.
  if (index == 0 ? !first : first && packet.bth.psn != qp.tx.read_restart) return false;
  if (ends_message && !last) return false;
  if (last && !ends_message && !ends_request) return false;
  return packet.payload.size() == std::min(slot.length - offset, qp.mtu());
}

}  // namespace

void on_ack(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  const wire::AethKind kind = packet.aeth.kind();
  if (kind == wire::AethKind::ack) core.counters.acks_received.add();
  if (distance(psn, tx.sent) >= 0 || distance(psn, tx.una) < -1) {
    core.count_drop(wire::Drop::response_stale);  // 9.7.5.1.3: ghost and duplicate ACKs are dropped.
    return;
  }
  if (kind == wire::AethKind::ack) {
    const Acked acked = acknowledge_through(core, qp, psn);
    take_credits(core, qp, packet.aeth);
    if (acked == Acked::behind_response) implied_nak(core, qp);
    return;
  }
  if (distance(psn, tx.una) < 0) {
    core.count_drop(wire::Drop::response_stale);
    return;
  }
  // 9.7.5.2: a NAK acknowledges all packets before its own.
  if (psn != tx.una && acknowledge_through(core, qp, psn - 1) == Acked::behind_response) {
    implied_nak(core, qp);
    return;
  }
  switch (kind) {
    case wire::AethKind::rnr_nak: on_rnr_nak(core, qp, packet); break;
    case wire::AethKind::nak: on_nak(core, qp, packet); break;
    default: core.count_drop(wire::Drop::response_unexpected); break;
  }
}

void on_read_response(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  SendSlot* slot = awaited(core, qp, packet, false);
  if (slot == nullptr) return;
  auto& tx = qp.tx;
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
  ++tx.una;
  if (tx.una == slot->end_psn()) complete_oldest(core, qp, WcStatus::success);
  if (packet.op().flags.has(wire::Op::aeth)) take_credits(core, qp, packet.aeth);
  progressed(core, qp, packet.bth.psn);
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
  qp.tx.una = slot->end_psn();
  complete_oldest(core, qp, WcStatus::success);
  take_credits(core, qp, packet.aeth);
  progressed(core, qp, packet.bth.psn);
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
  core.counters.timeouts.add();
  tx.window = std::min(tx.window, kWindowAfterTimeout);
  retry_from(core, qp, tx.una);
}

}  // namespace uroce::transport
