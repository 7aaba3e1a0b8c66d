#include "tests/sim/network.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/support/encode.h"
#include "wire/recovery.h"
#include "wire/text.h"

namespace uroce::test {

Fate RandomFaults::next(Nanos now) {
  Fate fate;
  const auto hold = [this] {
    return Nanos(static_cast<int64_t>(random_.below(static_cast<uint64_t>(rates_.hold_max.count()) + 1)));
  };
  if (random_.chance(rates_.burst)) burst_end_ = now + Nanos(static_cast<int64_t>(random_.below(20'000)));
  if (random_.chance(rates_.drop) || now < burst_end_) {
    fate.drop = true;
    ++dropped_;
  }
  if (random_.chance(rates_.corrupt)) fate.corrupt = true;
  if (random_.chance(rates_.plain)) fate.plain = true;
  if (rates_.mark != 0) fate.mark = random_.chance(rates_.mark);
  if (random_.chance(rates_.reorder)) fate.delay = hold();
  if (random_.chance(rates_.duplicate)) {
    fate.duplicate = true;
    // Some copies come so late that what they belong to is long over.
    fate.duplicate_delay = random_.chance(0.2) ? hold() * 100 : hold();
  }
  return fate;
}

Nanos Network::next_event() const {
  Nanos next = in_flight_.empty() ? kNever : in_flight_.top().arrival;
  for (const TestEndpoint* host : hosts_) next = std::min(next, host->next_deadline());
  return next == kNever ? kNever : std::max(next, now_);
}

void Network::put(std::size_t host, const Frame& bytes, Nanos delay) {
  in_flight_.push({now_ + delay, order_++, host, bytes});
}

// One bit, or the tail.
void Network::corrupt(Frame& frame) {
  if (random_.chance(0.2)) {
    frame.resize(random_.below(frame.size()));
    return;
  }
  const std::size_t bit = random_.below(frame.size() * 8);
  frame[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
}

void Network::mark(Frame& frame) {
  constexpr std::size_t kTypeOfService = 15;  // IPv4 without a VLAN tag, as all hosts here have it
  if ((frame[kTypeOfService] & std::byte{3}) == std::byte{0}) return;
  frame[kTypeOfService] |= std::byte{3};
  reseal(frame);
}

// Makes a SACK the answer of a peer that keeps nothing out of order.
void Network::make_plain(Frame& frame) {
  const auto packet = wire::parse(frame);
  wire::Sack sack;
  if (!packet || packet->bth.opcode != wire::Opcode::sack || !wire::Sack::load(packet->payload, sack)) return;
  wire::Packet plain = *packet;
  plain.bth.opcode = wire::Opcode::rc_ack;
  if (sack.words != 0 && packet->aeth.kind() == wire::AethKind::ack) {
    plain.aeth.syndrome = wire::Aeth::nak(wire::NakCode::psn_sequence);
    plain.bth.psn = sack.base;
  }
  Frame out(frame.size());
  out.resize(encode(out, plain, route_of(*packet), {}, framing_of(*packet)));
  frame = std::move(out);
}

std::size_t Network::host_of(const Frame& frame) const {
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    if (std::memcmp(frame.data(), hosts_[i]->options().mac.bytes.data(), 6) == 0) return i;
  }
  require(false, "a frame for a MAC address that no host has");
  return 0;
}

void Network::print(std::size_t host, const Frame& frame, const Fate& fate) const {
  if (!trace_) return;
  const auto packet = wire::parse(frame);
  const std::string text = packet ? wire::to_text(*packet) : "raw frame of " + std::to_string(frame.size()) + " bytes";
  std::printf("%12lld host %zu: %s%s%s%s\n", static_cast<long long>(now_.count()), host, text.c_str(),
              fate.drop ? " LOST" : "", fate.corrupt ? " CORRUPT" : "", fate.duplicate ? " TWICE" : "");
}

void Network::run(std::size_t host) {
  TestEndpoint& sender = *hosts_[host];
  sender.run(now_);
  for (SentFrame& sent : sender.sink().take()) {
    ++frames_sent_;
    if (watch_) watch_(host, sent.bytes);
    require(sent.raw || wire::parse(sent.bytes).has_value(), "an engine sent a frame that does not parse");
    if (sent.is_for_sniffers()) sender.offer_to_rules(sent.bytes, now_, transport::FrameTakers::sniffers);
    if (sent.loopback) {
      print(host, sent.bytes, {});
      put(host, sent.bytes, Nanos(100));
      continue;
    }
    const std::size_t to = host_of(sent.bytes);
    const Fate fate = faults_.next(now_);
    if (fate.plain) make_plain(sent.bytes);
    if (fate.mark && !sent.raw) mark(sent.bytes);
    print(host, sent.bytes, fate);
    if (fate.duplicate) put(to, sent.bytes, delay_ + fate.duplicate_delay);
    if (fate.drop) continue;
    if (fate.corrupt) corrupt(sent.bytes);
    put(to, sent.bytes, delay_ + fate.delay);
  }
}

void Network::advance_to(Nanos time) {
  idle_steps_ = time > now_ ? 0 : idle_steps_ + 1;
  require(idle_steps_ < 100'000, "an engine asks to be polled again and again at one moment");
  now_ = std::max(now_, time);
  std::vector<std::vector<Frame>> bursts(hosts_.size());
  while (!in_flight_.empty() && in_flight_.top().arrival <= now_) {
    bursts[in_flight_.top().host].push_back(in_flight_.top().bytes);
    in_flight_.pop();
  }
  for (std::size_t i = 0; i < hosts_.size(); ++i) {
    std::vector<transport::RxFrame> frames;
    for (const Frame& frame : bursts[i]) frames.push_back({.bytes = frame});
    if (!frames.empty()) hosts_[i]->inject(frames, now_);
    for (const Frame& frame : bursts[i]) hosts_[i]->offer_to_rules(frame, now_, transport::FrameTakers::all);
    if (!frames.empty() || hosts_[i]->next_deadline() <= now_) run(i);
  }
}

}  // namespace uroce::test
