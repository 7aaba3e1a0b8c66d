// What is lost, and when to send it again.
//
// A request that others have overtaken by more than reordering explains is lost; one that was sent again is lost again
// a round trip later, when something sent after it has arrived (as RACK, RFC 8985, and Falcon have it). Answers of
// READs and atomics are looked at the same way, towards any peer. When nothing is heard for two round trips, the newest
// packet is sent again to make the peer speak; after that, the oldest.
#include "transport/aeth_codes.h"
#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

// Packets that may overtake another before that is taken for lost: at first, and at most.
constexpr uint32_t kLeastReorder = 3;
constexpr uint32_t kMostReorder = 512;
// After as many packets in order, less reordering is expected again.
constexpr uint32_t kForgetReorder = 16384;
constexpr Nanos kUnknownRtt{1'000'000};
constexpr Nanos kLeastProbe{8'000};
constexpr Nanos kLeastTimeout{50'000};
constexpr Nanos kLongestWait{1'000'000'000};
// Where the queue pair itself has no timeout: after as long a silence the peer may have forgotten what it kept.
constexpr Nanos kRenege{100'000'000};

Nanos round_trip(const Recovery& r) { return r.rtt.known() ? r.rtt.smoothed() : kUnknownRtt; }

// Long enough for an answer to what was sent again.
Nanos recency(const Recovery& r) { return round_trip(r) + std::max(round_trip(r) / 4, r.rtt.variation() * 2); }

uint32_t reorder_of(const Qp& qp) {
  const uint32_t learnt = qp.tx.recovery->reorder;
  // An order-preserving network and a peer that drops what is out of order: whatever is overtaken is lost.
  return qp.tx.selective ? std::max(learnt, kLeastReorder) : std::max(learnt, 1u);
}

void learn_reordering(Recovery& r, uint32_t overtaken_by) {
  r.reorder = std::min(std::max(r.reorder, overtaken_by + overtaken_by / 4 + 1), kMostReorder);
  r.in_order = 0;
}

bool is_overtaken(EngineCore& core, Qp& qp, Psn psn) {
  Recovery& r = *qp.tx.recovery;
  const Departure& departure = r.departure(psn);
  if (departure.times <= 1) return distance(r.highest, psn) > static_cast<int32_t>(reorder_of(qp));
  return Stamp(core.now).since(departure.at) >= recency(r) && r.newest_delivered.since(departure.at) > Nanos(0);
}

void tell_loss(EngineCore& core, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  CongestionControl* control = qp.cold->congestion.get();
  if (control == nullptr || core.now - r.loss_at < round_trip(r)) return;
  r.loss_at = core.now;
  control->on_loss(core.now);
}

// The missing answers of `slot` up to `end`, from `psn` on. Returns where the first run of them begins and ends.
struct Run {
  Psn from;
  Psn to;
};
Run missing_run(const Recovery& r, Psn from, Psn end) {
  const auto span = static_cast<uint32_t>(std::clamp(distance(end, from), 0, static_cast<int32_t>(PsnSet::kSize)));
  const Psn begin = from + r.placed.next(from, span, false);
  const auto rest = static_cast<uint32_t>(distance(from + span, begin));
  return {begin, begin + r.placed.next(begin, rest)};
}

// After two silent round trips: what shows most.
void probe(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  const SendSlot& oldest = qp.slot(tx.oldest);
  const Psn newest = tx.sent - 1;
  uint32_t index = tx.oldest;
  if (oldest.is_read_or_atomic() || distance(tx.recovery->highest, tx.una) > 0) {
    mark_lost(core, qp, tx.una, Cause::probe);
  } else if (const SendSlot* slot = find_request(qp, newest, index); slot != nullptr) {
    const Psn psn = slot->is_read_or_atomic() ? slot->first_psn : newest;
    const bool near = distance(psn, tx.una) < static_cast<int32_t>(PsnSet::kSize);
    mark_lost(core, qp, near ? psn : tx.una, Cause::probe);
  }
}

}  // namespace

uint8_t note_departure(EngineCore& core, Qp& qp, Psn psn) {
  auto& tx = qp.tx;
  Departure& departure = tx.recovery->departure(psn);
  departure.at = Stamp(core.now);
  if (distance(psn, tx.sent) >= 0) {
    departure.times = 1;
    return 0;
  }
  core.counters.retransmitted_packets.add();
  ++tx.recovery->retransmissions[static_cast<std::size_t>(tx.recovery->cause)];
  if (departure.times != UINT16_MAX) ++departure.times;
  return tx.selective ? static_cast<uint8_t>(std::min(departure.times - 1, 127)) : uint8_t{0};
}

Nanos sample_rtt(EngineCore& core, Qp& qp, Psn psn) {
  Recovery& r = *qp.tx.recovery;
  const int32_t age = distance(qp.tx.sent, psn);
  // Karn: of what was sent twice, nobody knows which one is answered.
  if (age <= 0 || age > static_cast<int32_t>(r.departures.size()) || r.departure(psn).times != 1) return Nanos(0);
  const Nanos rtt = std::max(Stamp(core.now).since(r.departure(psn).at), Nanos(1));
  r.rtt.sample(rtt);
  return rtt;
}

void tell_congestion_control(EngineCore& core, Qp& qp, Nanos rtt, uint32_t packets) {
  CongestionControl* control = qp.cold->congestion.get();
  if (control == nullptr || qp.state == QpState::error) return;
  control->on_ack({.now = core.now, .rtt = rtt, .packets = packets});
  update_window(core, qp);
}

void update_window(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  const Recovery& r = *tx.recovery;
  uint32_t window = std::min({core.config.window_packets, r.open_window, PsnSet::kSize});
  if (tx.selective) window = std::min(window, r.peer_parking + 1u);
  if (const CongestionControl* control = qp.cold->congestion.get(); control != nullptr) {
    const uint32_t arrived = r.marked ? r.sacked.count() + r.lost.count() : 0;
    window = std::min(window, control->window() + arrived);
    qp.paced = control->rate() != 0;
  }
  tx.window = std::max(window, 1u);
}

void mark_lost(EngineCore& core, Qp& qp, Psn psn, Cause cause) {
  Recovery& r = *qp.tx.recovery;
  r.lost.add(psn);
  r.marked = true;
  r.cause = cause;
  qp.tx.has_lost = true;
  core.activate(qp);
}

void note_delivered(Qp& qp, Psn psn, Psn overtaken_by) {
  Recovery& r = *qp.tx.recovery;
  const Departure& departure = r.departure(psn);
  if (departure.times == 1) {
    if (departure.at.since(r.newest_delivered) > Nanos(0)) r.newest_delivered = departure.at;
    if (distance(overtaken_by, psn) > 1) return note_late(qp, psn, overtaken_by);
  }
  if (++r.in_order < kForgetReorder) return;
  r.in_order = 0;
  r.reorder -= r.reorder / 4;
}

void note_late(Qp& qp, Psn psn, Psn overtaken_by) {
  const int32_t late = distance(overtaken_by, psn) - 1;
  if (late > 0) learn_reordering(*qp.tx.recovery, static_cast<uint32_t>(late));
}

void note_spurious(EngineCore& core, Qp& qp) {
  core.counters.spurious_retransmissions.add();
  Recovery& r = *qp.tx.recovery;
  if (r.cause == Cause::hole) learn_reordering(r, reorder_of(qp));
}

void mark_overtaken(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  bool any = false;
  uint32_t index = tx.oldest;
  const Psn limit = tx.una + PsnSet::kSize;
  const Psn end = distance(r.highest, limit) < 0 ? r.highest : limit;
  for (Psn psn = tx.acked; distance(end, psn) > 0; ++psn) {
    psn += r.sacked.next(psn, static_cast<uint32_t>(distance(end, psn)), false);
    if (psn == end) break;
    const SendSlot* slot = find_request(qp, psn, index);
    if (slot == nullptr) break;
    if (psn == slot->first_psn || !slot->is_read()) {
      if (!r.lost.has(psn) && is_overtaken(core, qp, psn)) {
        mark_lost(core, qp, psn, Cause::hole);
        any = true;
      }
    }
    if (slot->is_read()) psn = slot->end_psn() - 1;
  }
  if (any) tell_loss(core, qp);
}

void ask_for_missing(EngineCore& core, Qp& qp, Psn horizon) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  if (distance(horizon, r.horizon) > 0) r.horizon = horizon;
  const Psn limit = tx.una + PsnSet::kSize;
  const Psn reach = distance(r.horizon, limit) < 0 ? r.horizon : limit;
  const auto overtaken = static_cast<int32_t>(reorder_of(qp));
  const bool again = core.now - r.asked_at >= recency(r);
  Psn asked = r.asked_until;
  bool any = false;
  Psn psn = tx.una;
  for (uint32_t index = tx.oldest; index != tx.sq.next() && distance(reach, psn) >= overtaken; ++index) {
    const SendSlot& slot = qp.slot(index);
    if (!slot.started) break;
    const Psn end = distance(slot.end_psn(), reach) < 0 ? slot.end_psn() : reach;
    while (slot.is_read_or_atomic() && distance(end, psn) > 0) {
      const Run run = missing_run(r, psn, end);
      psn = run.to;
      if (run.from == run.to || distance(reach, run.from) < overtaken) break;
      const bool known = r.lost.has(run.from) || (!again && distance(run.from, r.asked_until) < 0);
      if (!known) {
        mark_lost(core, qp, run.from, Cause::hole);
        any = true;
        if (distance(run.to, asked) > 0) asked = run.to;
      }
      // A standard peer may forget what lies before a part that it was asked for again, as Linux rxe does.
      if (!tx.selective) psn = reach;
    }
    if (distance(slot.end_psn(), psn) > 0) psn = slot.end_psn();
  }
  if (!any) return;
  r.asked_until = asked;
  r.asked_at = core.now;
  tell_loss(core, qp);
}

Nanos probe_timeout(const Qp& qp, uint32_t round) {
  const Recovery& r = *qp.tx.recovery;
  Nanos wait = std::max(round_trip(r) * 2 + r.rtt.variation() * 4, kLeastProbe);
  if (round > 0) wait = std::max(wait, kLeastTimeout / 2) * (int64_t{1} << std::min(round, 20u));
  return std::min({wait, kLongestWait, ack_timeout(qp.timeout)});
}

void on_quiet(EngineCore& core, Qp& qp) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  ++r.quiet_rounds;
  // As long as Go-Back-N would have tried (9.7.6.1.3), and as often.
  const bool limited = qp.timeout != 0 && r.quiet_rounds > qp.retry_cnt;
  if (limited && core.now - r.progress_at >= ack_timeout(qp.timeout) * (qp.retry_cnt + 1)) {
    enter_error(core, qp, WcStatus::retry_exceeded);
    return;
  }
  const SendSlot& oldest = qp.slot(tx.oldest);
  if (oldest.is_read_or_atomic() && distance(oldest.end_psn(), r.horizon) > 0) r.horizon = oldest.end_psn();
  if (r.quiet_rounds == 1) {
    core.counters.probes.add();
    probe(core, qp);
  } else {
    core.counters.timeouts.add();
    mark_lost(core, qp, tx.una, Cause::timeout);
    if (r.quiet_rounds == 2 && qp.cold->congestion != nullptr) qp.cold->congestion->on_timeout(core.now);
  }
  // A shorter silence may just be a peer that has no core to run on.
  const Nanos silence = core.now - r.progress_at;
  if (r.quiet_rounds > 2 && silence >= (qp.timeout == 0 ? kRenege : ack_timeout(qp.timeout))) {
    r.sacked.clear();
    r.lost.clear();
    tx.has_lost = false;
    r.open_window = std::min(r.open_window, kWindowAfterTimeout);
    rewind_to(core, qp, tx.una);
  }
  update_window(core, qp);
  arm_ack_timer(core, qp);
}

}  // namespace uroce::transport
