#include "transport/loss/loss_detector.h"

#include <algorithm>

namespace uroce::transport {
namespace {

// Packets that may overtake another one before that counts as lost, at first.
constexpr uint32_t kLeastReorder = 3;
// After this many packets in order, less reordering is expected again.
constexpr uint32_t kForgetReorder = 16384;

}  // namespace

void LossDetector::reset() {
  SendTimes times = times_;
  times.clear();
  *this = LossDetector(times);
}

Nanos LossDetector::recency() const {
  const Nanos round_trip = rtt_.smoothed_or_assumed();
  return round_trip + std::max(round_trip / 4, rtt_.variation() * 2);
}

uint32_t LossDetector::reordering(bool selective) const {
  // A standard peer drops packets that are out of order, so one packet that overtakes is enough.
  return selective ? std::max(reorder_, kLeastReorder) : std::max(reorder_, 1u);
}

void LossDetector::learn_reordering(uint32_t overtaken_by) {
  reorder_ = std::min(std::max(reorder_, overtaken_by + overtaken_by / 4 + 1), kMostReorder);
  in_order_ = 0;
}

bool LossDetector::is_overtaken(Psn psn, bool selective, Nanos now) const {
  const Departure& departure = times_[psn];
  if (departure.times <= 1) return distance(highest_, psn) > static_cast<int32_t>(reordering(selective));
  return Stamp(now).since(departure.at) >= recency() && newest_delivered_.since(departure.at) > Nanos(0);
}

bool LossDetector::begin_loss_event(Nanos now) {
  if (now - loss_at_ < rtt_.smoothed_or_assumed()) return false;
  loss_at_ = now;
  return true;
}

std::optional<Nanos> LossDetector::on_echo(const wire::Sack& sack, Psn sent, Nanos now) {
  if (!times_.covers(sack.echo, sent) || sack.hold == UINT32_MAX) return Nanos(0);
  const Departure& departure = times_[sack.echo];
  if (is_late(sack, sent)) on_late(sack.echo, highest_);
  if (departure.times == 0 || departure.times - 1 != sack.echo_tag) return Nanos(0);
  const Nanos rtt = Stamp(now).since(departure.at) - Nanos(sack.hold);
  if (rtt < Nanos(-128)) return std::nullopt;
  if (departure.at.since(newest_delivered_) > Nanos(0)) newest_delivered_ = departure.at;
  rtt_.sample(rtt);
  return std::max(rtt, Nanos(1));
}

uint32_t LossDetector::on_sack(const wire::Sack& sack, Psn una, Psn acked) {
  uint32_t news = 0;
  const Psn highest = highest_;
  const int32_t cumulative = distance(sack.base, acked);
  if (cumulative > 0) {
    news = static_cast<uint32_t>(cumulative);
    const Psn end = distance(sack.base, highest) < 0 ? sack.base : highest;
    for (Psn psn = acked; distance(end, psn) > 0; ++psn) {
      if (sacked_.has(psn)) {
        --news;
      } else {
        note_delivered(psn, highest);
      }
    }
  }
  if (distance(sack.base, highest_) > 0) highest_ = sack.base;
  for (uint32_t i = 0; i < sack.words * 64; ++i) {
    if ((sack.bitmap[i / 64] >> (i % 64) & 1) == 0) continue;
    const Psn psn = sack.base + 1 + i;
    if (distance(psn, una) >= static_cast<int32_t>(PsnSet::kSize)) break;
    if (sacked_.has(psn)) continue;
    ++news;
    note_delivered(psn, highest);
    sacked_.add(psn);
    lost_.remove(psn);
    marked_ = true;
    if (distance(psn + 1, highest_) > 0) highest_ = psn + 1;
  }
  return news;
}

void LossDetector::note_delivered(Psn psn, Psn overtaken_by) {
  const Departure& departure = times_[psn];
  if (departure.times == 1) {
    if (departure.at.since(newest_delivered_) > Nanos(0)) newest_delivered_ = departure.at;
    if (distance(overtaken_by, psn) > 1) return on_late(psn, overtaken_by);
  }
  if (++in_order_ < kForgetReorder) return;
  in_order_ = 0;
  reorder_ -= reorder_ / 4;
}

void LossDetector::on_late(Psn psn, Psn overtaken_by) {
  const int32_t late = distance(overtaken_by, psn) - 1;
  if (late > 0) learn_reordering(static_cast<uint32_t>(late));
}

void LossDetector::on_spurious(bool selective) {
  if (counts_.cause == Cause::hole) learn_reordering(reordering(selective));
}

}  // namespace uroce::transport
