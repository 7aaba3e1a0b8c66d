#include "faults/frame_faults.h"

#include <algorithm>
#include <array>

#include "faults/answer.h"
#include "faults/change.h"
#include "faults/cm_message.h"
#include "faults/match.h"
#include "wire/gsi.h"

namespace uroce::faults {

namespace {

/// The longest answer: IPv6 with a tag, and a MAD.
constexpr std::size_t kLongestAnswer = 512;

bool can_corrupt(const Rule& rule, const wire::Packet& packet) {
  if (rule.part == Part::icrc) return true;
  const std::size_t bytes = rule.part == Part::payload ? packet.payload.size() : packet.op().header_length;
  return bytes > rule.at.value_or(0);
}

bool sends_naks(const Rule& rule) { return rule.action == Action::answer && rule.answer != Answer::reject; }

}  // namespace

FrameFaults::FrameFaults(const Rules& rules, std::string_view device, std::size_t longest, FaultCounters& counters,
                         QpView* qps)
    : counters_(counters), qps_(qps), held_(std::make_unique<HeldFrames>(longest)) {
  std::ranges::copy_if(rules, std::back_inserter(rules_), [&](const auto& one) {
    return acts_on_frames(one->rule.subject, one->rule.action) &&
           (one->rule.device.empty() || one->rule.device == device);
  });
  answers_ = qps != nullptr && std::ranges::any_of(rules_, [](const auto& one) { return sends_naks(one->rule); });
}

std::optional<uint32_t> FrameFaults::own_qp(Way way, const wire::Packet& packet) const {
  if (packet.bth.dest_qpn == wire::kGsiQpn || qps_ == nullptr) return std::nullopt;
  return way == Way::tx ? qps_->sender_of(way, packet) : std::optional(packet.bth.dest_qpn);
}

bool FrameFaults::can_act(const Rule& rule, Way way, const wire::Packet& packet, const Fate& fate) const {
  switch (rule.action) {
    case Action::corrupt: return can_corrupt(rule, packet);
    case Action::answer:
      if (!has_answer(rule, packet)) return false;
      return rule.answer == Answer::reject ||
             (fate.responder != nullptr && fate.responder->turn_of(packet.bth.psn) != Responder::Turn::never);
    case Action::end_qp: return own_qp(way, packet).has_value();
    default: return true;
  }
}

void FrameFaults::answer(const ActiveRule& rule, Way way, const wire::Packet& packet, Fate& fate) {
  std::array<std::byte, kLongestAnswer> room;
  const bool rejects = rule.rule.answer == Answer::reject;
  const uint32_t asker = rejects ? wire::kGsiQpn : fate.asker;
  const auto frame = std::span(room).first(write_answer(rule.rule, packet, asker, room));
  if (rejects || fate.responder->turn_of(packet.bth.psn) == Responder::Turn::now) {
    keep(held_->hold(back(way), frame, fate.due), fate);
  } else {
    fate.responder->wait(packet.bth.psn, rule.number, frame);
  }
}

Responder* FrameFaults::follow(Way way, const wire::Packet& packet, std::span<const std::byte> frame, Nanos now,
                               uint32_t& asker) {
  const auto transport = wire::transport_of(packet.bth.opcode);
  if (transport != wire::Transport::rc && transport != wire::Transport::xrc && packet.bth.opcode != wire::Opcode::sack)
    return nullptr;
  // A frame that is corrupt tells nothing.
  if (!answers_ || !wire::parse(frame, wire::Icrc::check)) return nullptr;
  if (!packet.op().flags.has(wire::Op::request)) {
    const auto nak = responders_.note_response(way, packet);
    if (!nak.empty()) keep(held_->hold(way, nak, now), {});
    return nullptr;
  }
  const auto sender = qps_->sender_of(way, packet);
  if (!sender) return nullptr;
  asker = *sender;
  return &responders_.of_request(way, packet, asker);
}

void FrameFaults::apply(ActiveRule& rule, uint64_t draw, Way way, const wire::Packet& packet,
                        std::span<std::byte> frame, Fate& fate) {
  switch (rule.rule.action) {
    case Action::drop:
    case Action::link_down:
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
    case Action::answer:
      fate.lost = true;
      fate.keeper = &rule;
      answer(rule, way, packet, fate);
      return;
    case Action::stall: stall_ += rule.rule.delay; return;
    case Action::end_qp:
      fate.lost = true;
      ended_.push_back(*own_qp(way, packet));
      return;
    case Action::fail:
    case Action::raise:
    case Action::gid_gone:
    case Action::hold:
    case Action::batch:
    case Action::shuffle:
    case Action::late_event: return;  // of calls, events and completions
  }
}

void FrameFaults::keep(bool kept, const Fate& fate) {
  if (kept) return;
  counters_.overflow.add();
  if (fate.keeper != nullptr) fate.keeper->overflow.fetch_add(1, std::memory_order_relaxed);
}

bool FrameFaults::take(Way way, std::span<std::byte> frame, Nanos now) {
  acted_ = 0;
  const auto packet = wire::parse(frame, wire::Icrc::skip);
  if (!packet) return true;
  const uint32_t qpn = packet->bth.dest_qpn;
  if (!ended_.empty()) {
    const auto own = own_qp(way, *packet);
    if (own && std::ranges::find(ended_, *own) != ended_.end()) return false;
  }
  Fate fate{.due = now};
  fate.responder = follow(way, *packet, frame, now, fate.asker);
  if (fate.responder != nullptr && fate.responder->loses(packet->bth.psn)) {
    acted_ = fate.responder->rule();
    return false;
  }
  for (const auto& rule : rules_) {
    if (!chooses(rule->rule, way, *packet) || !can_act(rule->rule, way, *packet, fate)) continue;
    const auto draw = rule->fires(now);
    if (!draw) continue;
    counters_.injected.add();
    acted_ = rule->number;
    apply(*rule, *draw, way, *packet, frame, fate);
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
