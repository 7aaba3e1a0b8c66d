// Selective acknowledgement: what arrives out of order is kept and told; what the peer tells is believed as far as it
// can be true.
#include "transport/engine_core.h"
#include "wire/recovery.h"

namespace uroce::transport {
namespace {

uint16_t take_parked(Recovery& r, Psn psn) {
  r.parked_psns.remove(psn);
  --r.parked_count;
  return std::exchange(r.parking_place(psn), uint16_t{0});
}

// What is parked at PSNs that a READ has taken is nobody's.
void drop_parked(EngineCore& core, Recovery& r, Psn from, Psn to) {
  const auto span = static_cast<uint32_t>(std::clamp(distance(to, from), 0, static_cast<int32_t>(PsnSet::kSize)));
  for (uint32_t at = r.parked_psns.next(from, span); at < span; at = r.parked_psns.next(from, span)) {
    core.parking.release(take_parked(r, from + at));
  }
}

void keep(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  Recovery& r = *qp.tx.recovery;
  const Psn psn = packet.bth.psn;
  const bool near = distance(psn, qp.rx.expected) <= static_cast<int32_t>(r.parking());
  const uint16_t number = near ? core.parking.keep(packet.bytes()) : uint16_t{0};
  if (number == 0) {
    core.count_drop(wire::Drop::parking_full);
    return;
  }
  r.parking_place(psn) = number;
  r.parked_psns.add(psn);
  if (r.parked_count++ == 0 || distance(psn + 1, r.parked_end) > 0) r.parked_end = psn + 1;
  qp.rx.has_parked = true;
  core.counters.parked_packets.add();
}

// Is what the SACK says about this connection, and about what has been sent?
bool can_be_true(const Qp& qp, const wire::Packet& packet, const wire::Sack& sack) {
  const auto& tx = qp.tx;
  if (sack.epoch != tx.recovery->epoch || distance(sack.base, tx.sent) > 0) return false;
  if (packet.aeth.kind() != wire::AethKind::ack && packet.bth.psn != sack.base) return false;
  for (uint32_t i = sack.words; i > 0; --i) {
    if (sack.bitmap[i - 1] == 0) continue;
    const uint32_t top = i * 64 - static_cast<uint32_t>(std::countl_zero(sack.bitmap[i - 1]));
    return distance(sack.base + top, tx.sent) < 0;
  }
  return true;
}

// The time that the echo tells; 0: none. No value: no clock can have shown that.
std::optional<Nanos> echoed_rtt(EngineCore& core, Qp& qp, const wire::Sack& sack) {
  Recovery& r = *qp.tx.recovery;
  const int32_t age = distance(qp.tx.sent, sack.echo);
  if (age <= 0 || age > static_cast<int32_t>(r.departures.size()) || sack.hold == UINT32_MAX) return Nanos(0);
  const Departure& departure = r.departure(sack.echo);
  // It was sent again, and here is the first of the two.
  if (departure.times > 1 && sack.echo_tag == 0 && !sack.duplicate) note_late(qp, sack.echo, r.highest);
  if (departure.times == 0 || departure.times - 1 != sack.echo_tag) return Nanos(0);
  const Nanos rtt = Stamp(core.now).since(departure.at) - Nanos(sack.hold);
  if (rtt < Nanos(-128)) return std::nullopt;
  if (departure.at.since(r.newest_delivered) > Nanos(0)) r.newest_delivered = departure.at;
  r.rtt.sample(rtt);
  return std::max(rtt, Nanos(1));
}

// Takes over what has arrived. Returns how many packets are news.
uint32_t take_bitmap(Qp& qp, const wire::Sack& sack) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  uint32_t news = 0;
  const Psn highest = r.highest;
  const int32_t cumulative = distance(sack.base, tx.acked);
  if (cumulative > 0) {
    news = static_cast<uint32_t>(cumulative);
    const Psn end = distance(sack.base, highest) < 0 ? sack.base : highest;
    for (Psn psn = tx.acked; distance(end, psn) > 0; ++psn) {
      if (r.sacked.has(psn))
        --news;
      else
        note_delivered(qp, psn, highest);
    }
  }
  if (distance(sack.base, r.highest) > 0) r.highest = sack.base;
  for (uint32_t i = 0; i < sack.words * 64; ++i) {
    if ((sack.bitmap[i / 64] >> (i % 64) & 1) == 0) continue;
    const Psn psn = sack.base + 1 + i;
    if (distance(psn, tx.una) >= static_cast<int32_t>(PsnSet::kSize)) break;
    if (r.sacked.has(psn)) continue;
    ++news;
    note_delivered(qp, psn, highest);
    r.sacked.add(psn);
    r.lost.remove(psn);
    r.marked = true;
    if (distance(psn + 1, r.highest) > 0) r.highest = psn + 1;
  }
  return news;
}

}  // namespace

void note_arrival(EngineCore& core, Qp& qp, const wire::Packet& packet, bool duplicate) {
  Recovery& r = *qp.tx.recovery;
  r.echo_psn = packet.bth.psn;
  r.echo_tag = packet.bth.reserved7;
  r.echo_duplicate = duplicate;
  r.echo_at = core.now;
}

void park(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  const bool again = qp.tx.recovery->parked_psns.has(packet.bth.psn) &&
                     distance(packet.bth.psn, qp.rx.expected) <= static_cast<int32_t>(qp.tx.recovery->parking());
  note_arrival(core, qp, packet, again);
  if (again) {
    core.count_drop(wire::Drop::psn_duplicate);
  } else {
    keep(core, qp, packet);
  }
  queue_reply(core, qp, qp.rx.expected - 1, wire::Aeth::ack(0));
}

void unpark(EngineCore& core, Qp& qp, Psn closed) {
  auto& rx = qp.rx;
  Recovery& r = *qp.tx.recovery;
  Psn before = closed;
  while (qp.state != QpState::error) {
    drop_parked(core, r, before, rx.expected);
    if (!r.parked_psns.has(rx.expected)) break;
    before = rx.expected;
    const uint16_t number = take_parked(r, rx.expected);
    // Its ICRC was right when it arrived.
    if (const auto packet = wire::parse(core.parking.frame(number), wire::Icrc::skip)) take_request(core, qp, *packet);
    core.parking.release(number);
    if (rx.expected == before) break;  // No receive for it; it must come again.
  }
  rx.has_parked = r.parked_count != 0;
  if (qp.state != QpState::error) queue_reply(core, qp, rx.expected - 1, wire::Aeth::ack(0));
}

void forget_parked(EngineCore& core, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  if (r.parked_count != 0) drop_parked(core, r, qp.rx.expected, qp.rx.expected + PsnSet::kSize);
  qp.rx.has_parked = false;
}

void send_sack(EngineCore& core, Qp& qp) {
  const auto& rx = qp.rx;
  const Recovery& r = *qp.tx.recovery;
  wire::Sack sack;
  sack.epoch = r.peer_epoch;
  sack.base = rx.expected;
  sack.echo = r.echo_psn;
  sack.echo_tag = r.echo_tag;
  sack.duplicate = r.echo_duplicate;
  sack.hold = static_cast<uint32_t>(std::min<int64_t>((core.now - r.echo_at).count(), UINT32_MAX));
  if (r.parked_count != 0) {
    const Psn first = rx.expected + 1;
    const int32_t span = distance(r.parked_end, first);
    sack.words = static_cast<uint32_t>(std::clamp((span + 63) / 64, 0, static_cast<int32_t>(wire::Sack::kMaxWords)));
    for (uint32_t i = 0; i < sack.words; ++i) sack.bitmap[i] = r.parked_psns.bits_from(first + i * 64);
    // The set goes round: beyond its range lie the PSNs at its begin.
    if (sack.words == wire::Sack::kMaxWords) sack.bitmap[sack.words - 1] &= ~uint64_t{0} >> 1;
  }
  TxFrame& frame = core.builder.next();
  store_aeth(FrameBuilder::extended_headers(frame, *qp.route), qp, rx.reply_syndrome, rx.msn);
  std::byte* const payload = core.builder.scratch();
  sack.store(payload);
  frame.copy_payload = true;
  core.builder.add_payload(frame, payload, static_cast<uint32_t>(sack.bytes()));
  core.builder.finish(frame, qp, wire::Opcode::sack, rx.reply_psn, wire::Aeth::kBytes);
  core.counters.sacks_sent.add();
}

void on_sack(EngineCore& core, Qp& qp, const wire::Packet& packet) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  core.counters.sacks_received.add();
  wire::Sack sack;
  const bool sound = r.epoch != 0 && wire::Sack::load(packet.payload, sack) && can_be_true(qp, packet, sack);
  // Who knows our epoch has heard us, though its HELLO may be lost.
  if (!sound || !(tx.selective || prove_peer(core, qp))) {
    core.count_drop(wire::Drop::sack_invalid);
    return;
  }
  if (distance(sack.base, tx.acked) < 0) {
    core.count_drop(wire::Drop::response_stale);
    return;
  }
  const auto rtt = echoed_rtt(core, qp, sack);
  if (!rtt) {
    core.count_drop(wire::Drop::sack_invalid);
    return;
  }
  if (sack.duplicate && sack.echo_tag != 0) note_spurious(core, qp);
  const uint32_t news = take_bitmap(qp, sack);
  on_reply(core, qp, packet, sack.base);
  if (qp.state == QpState::error) return;
  mark_overtaken(core, qp);
  tell_congestion_control(core, qp, *rtt, news);
}

}  // namespace uroce::transport
