#include "faults/frame_faults.h"

#include <algorithm>

#include "faults/change.h"
#include "faults/match.h"

namespace uroce::faults {

namespace {

/// Whether the rule can do its work on a frame: what it cannot change, it neither chooses nor counts.
bool can_change(const Rule& rule, const wire::Packet& packet) {
  if (rule.action != Action::corrupt || rule.part == Part::icrc) return true;
  const std::size_t bytes = rule.part == Part::payload ? packet.payload.size() : packet.op().header_length;
  return bytes > rule.at.value_or(0);
}

}  // namespace

FrameFaults::FrameFaults(const Rules& rules, std::string_view device, std::size_t longest, FaultCounters& counters)
    : counters_(counters), held_(std::make_unique<HeldFrames>(longest)) {
  std::ranges::copy_if(rules, std::back_inserter(rules_),
                       [&](const auto& one) { return one->rule.device.empty() || one->rule.device == device; });
}

void FrameFaults::apply(ActiveRule& rule, uint64_t draw, const wire::Packet& packet, std::span<std::byte> frame,
                        Fate& fate) const {
  switch (rule.rule.action) {
    case Action::drop:
    case Action::partition: fate.lost = true; return;
    case Action::delay:
      fate.due += rule.rule.delay;
      fate.keeper = &rule;
      return;
    case Action::throttle:
      fate.due = rule.throttled_until(frame.size(), fate.due);
      fate.keeper = &rule;
      return;
    case Action::reorder:
      fate.overtakers = rule.rule.overtakers;
      fate.keeper = &rule;
      return;
    case Action::duplicate: fate.doubled = true; return;
    case Action::corrupt: corrupt(rule.rule, packet, frame, draw); return;
    case Action::mark: mark_ecn(packet, frame); return;
  }
}

void FrameFaults::keep(bool kept, const Fate& fate) {
  if (kept) return;
  counters_.overflow.add();
  if (fate.keeper != nullptr) fate.keeper->overflow.fetch_add(1, std::memory_order_relaxed);
}

bool FrameFaults::take(Way way, std::span<std::byte> frame, Nanos now) {
  const auto packet = wire::parse(frame, wire::Icrc::skip);
  if (!packet) return true;
  const uint32_t qpn = packet->bth.dest_qpn;
  Fate fate{.due = now};
  for (const auto& rule : rules_) {
    if (!chooses(rule->rule, way, *packet) || !can_change(rule->rule, *packet)) continue;
    const auto draw = rule->fires();
    if (!draw) continue;
    counters_.injected.add();
    apply(*rule, *draw, *packet, frame, fate);
    if (fate.lost) return false;
  }
  if (fate.overtakers != 0) {
    keep(held_->hold_behind(way, frame, qpn, fate.overtakers, fate.due), fate);
  } else if (fate.due > now) {
    keep(held_->hold(way, frame, fate.due), fate);
  } else {
    held_->passed(way, qpn, now);
    if (fate.doubled) keep(held_->hold(way, frame, now), fate);
    return true;
  }
  if (fate.doubled) keep(held_->hold(way, frame, fate.due), fate);
  return false;
}

}  // namespace uroce::faults
