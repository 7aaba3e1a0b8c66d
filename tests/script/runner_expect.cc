#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "tests/script/names.h"
#include "tests/script/raw_line.h"
#include "tests/script/runner.h"
#include "wire/drop.h"

namespace uroce::test {

namespace {

std::string describe(const queues::Cqe& cqe) {
  return fmt::format("wr={} status={} op={} len={} imm_or_key={:#x} flags={:#x} qp={:#x}", cqe.wr_id,
                     name_of(kStatusNames, static_cast<WcStatus>(cqe.status)),
                     name_of(kWcOpcodeNames, static_cast<WcOpcode>(cqe.opcode)), cqe.byte_len, cqe.imm_or_key,
                     cqe.flags, cqe.qpn);
}

}  // namespace

std::string Runner::leftovers() const {
  std::string left;
  if (!frames_.empty())
    left += fmt::format("{} frame(s), first: {}; ", frames_.size(), test::describe(frames_.front().bytes));
  if (!send_cqes_.empty()) left += fmt::format("send completion {}; ", describe(send_cqes_.front()));
  if (!recv_cqes_.empty()) left += fmt::format("receive completion {}; ", describe(recv_cqes_.front()));
  for (const auto& event : endpoint_->events().async) {
    left += fmt::format("event {} of {:#x}; ", name_of(kEventNames, event.type), event.object);
  }
  for (uint32_t cq : endpoint_->events().completions) left += fmt::format("channel event of CQ {}; ", cq);
  return left;
}

void Runner::do_expect(const ScriptLine& line) {
  if (frames_.empty()) throw ScriptError{line.number, "no frame was sent"};
  const SentFrame& sent = frames_.front();
  const auto place = [this](uint64_t va, std::size_t n) { return resolve(va, n); };
  const auto why = is_raw_line(line) ? raw_mismatch(line, symbols_, wiring_, sent)
                                     : mismatch(line, symbols_, wiring_, sent.bytes, place);
  if (why) throw ScriptError{line.number, fmt::format("sent instead: {}", *why)};
  frames_.pop_front();
}

void Runner::check_cqe(const ScriptLine& line, std::deque<queues::Cqe>& queue) {
  Words words(line, symbols_);
  if (queue.empty()) words.error("no completion is there");
  const queues::Cqe cqe = queue.front();
  queue.pop_front();
  const auto expect = [&](bool holds) {
    if (!holds) words.error(fmt::format("completed instead: {}", describe(cqe)));
  };
  if (const auto wr = words.number("wr")) expect(cqe.wr_id == *wr);
  const std::string status_name = words.text("status").value_or("success");
  const auto status = enum_of(kStatusNames, status_name);
  if (!status) words.error(fmt::format("'{}' is no status", status_name));
  expect(cqe.status == static_cast<uint8_t>(*status));
  if (const auto op = words.text("op")) {
    const auto opcode = enum_of(kWcOpcodeNames, *op);
    if (!opcode) words.error(fmt::format("'{}' is no completion opcode", *op));
    expect(cqe.opcode == static_cast<uint8_t>(*opcode));
  }
  if (const auto length = words.number("len")) expect(cqe.byte_len == *length);
  if (const auto source = words.number("src_qp")) expect(cqe.src_qpn == *source);
  if (const auto vlan = words.number("vlan")) expect(cqe.vlan_tag == *vlan);
  if (const auto tag = words.number("tag")) expect(cqe.flow_tag == *tag);
  WcFlags flags;
  if (const auto imm = words.number("imm")) {
    expect(cqe.imm_or_key == *imm);
    flags |= WcFlag::with_imm;
  }
  if (const auto key = words.number("inv")) {
    expect(cqe.imm_or_key == *key);
    flags |= WcFlag::with_invalidate;
  }
  if (*status == WcStatus::success) {
    if (qp_->qp().type == QpType::ud && cqe.opcode == static_cast<uint8_t>(WcOpcode::recv)) flags |= WcFlag::grh;
    const WcFlags relevant = WcFlags(WcFlag::with_imm) | WcFlag::with_invalidate | WcFlag::grh;
    expect((WcFlags::from_bits(cqe.flags) & relevant) == flags);
  }
  expect(cqe.qpn == words.number_or("qp", qp_->qpn()));
  words.done();
}

void Runner::do_cqe(const ScriptLine& line) { check_cqe(line, send_cqes_); }
void Runner::do_recv_cqe(const ScriptLine& line) { check_cqe(line, recv_cqes_); }

void Runner::do_event(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string name = words.bare();
  words.done();
  const auto type = enum_of(kEventNames, name);
  if (!type) words.error(fmt::format("'{}' is no event", name));
  auto& events = endpoint_->events().async;
  if (events.empty()) words.error("no event was reported");
  if (events.front().type != *type)
    words.error(fmt::format("reported instead: {}", name_of(kEventNames, events.front().type)));
  events.erase(events.begin());
}

void Runner::do_fired(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string which = words.bare();
  words.done();
  auto& fired = endpoint_->events().completions;
  if (fired.empty()) words.error("no completion channel event was raised");
  const uint32_t cq = which == "recv" ? recv_cq_->id() : send_cq_->id();
  if (fired.front() != cq) words.error(fmt::format("CQ {} fired instead", fired.front()));
  fired.erase(fired.begin());
}

void Runner::do_quiet(const ScriptLine& line) {
  if (const std::string left = leftovers(); !left.empty())
    throw ScriptError{line.number, fmt::format("not expected: {}", left)};
}

/// `mem dst+8 len=64 psn=200`: the payload of that packet, `at=N` bytes into it; `u64=7`: a number;
/// `same=src+0`: as there; `initial`: never written.
void Runner::do_memory(const ScriptLine& line) {
  Words words(line, symbols_);
  const std::string place = words.bare();
  const auto va = symbols_.value(place);
  const auto u64 = words.number("u64");
  const std::size_t length = u64 ? 8 : words.number_or("len", 1);
  const std::byte* bytes = va ? resolve(*va, length) : nullptr;
  if (bytes == nullptr) words.error(fmt::format("'{}' with its length lies in no region", place));
  const std::span<const std::byte> span(bytes, length);
  std::size_t good = length;
  if (u64) {
    uint64_t actual = 0;
    std::memcpy(&actual, bytes, 8);
    if (actual != *u64) words.error(fmt::format("memory holds {:#x}", actual));
  } else if (const auto hex = words.text("hex")) {
    good = 0;
    for (; good < length && good * 2 + 2 <= hex->size(); ++good) {
      if (static_cast<uint8_t>(bytes[good]) != std::stoul(hex->substr(good * 2, 2), nullptr, 16)) break;
    }
  } else if (const auto psn = words.number("psn")) {
    good = find_mismatch(span, *psn, words.number_or("at", 0));
  } else if (const auto same = words.number("same")) {
    const std::byte* other = resolve(*same, length);
    if (other == nullptr) words.error("same= names bytes outside every region");
    good = static_cast<std::size_t>(std::mismatch(span.begin(), span.end(), other).first - span.begin());
  } else if (words.flag("initial")) {
    TestRegion* region = region_at(*va, length);
    good = find_mismatch(span, region->stream(), *va - region->va());
  } else {
    words.error("say psn=, same=, u64=, hex= or initial");
  }
  words.done();
  if (good != length) words.error(fmt::format("memory differs from byte {} on", good));
}

void Runner::do_state(const ScriptLine& line) {
  Words words(line, symbols_);
  const QpState expected = state_named(words, words.bare());
  words.done();
  const QpState actual = qp_->state();
  if (actual != expected) words.error(fmt::format("the QP is in state {}", name_of(kStateNames, actual)));
}

void Runner::do_srq(const ScriptLine& line) {
  Words words(line, symbols_);
  const auto posted = static_cast<uint32_t>(words.number_or("posted", 0));
  const auto held = words.number("held");
  words.done();
  if (srq_ == nullptr) words.error("there is no SRQ; write 'set srq=16' first");
  const queues::RingHeader& ring = *srq_->ring().header;
  const uint32_t left = ring.producer.load() - ring.consumer.load();
  const auto shown = qp_->held_recv();
  if (left == posted && shown == held) return;
  words.error(
      fmt::format("{} receives are posted, and {} is held", left, shown ? fmt::format("wr={}", *shown) : "none"));
}

void Runner::do_counter(const ScriptLine& line) {
  Words words(line, symbols_);
  const transport::EngineCounters& c = endpoint_->engine().counters();
  const transport::Traffic traffic = endpoint_->engine().traffic().sum();
  std::map<std::string, uint64_t> values{
      {"acks_sent", c.acks_sent.get()},
      {"naks_sent", c.naks_sent.get()},
      {"rnr_naks_sent", c.rnr_naks_sent.get()},
      {"acks_received", c.acks_received.get()},
      {"naks_received", c.naks_received.get()},
      {"rnr_naks_received", c.rnr_naks_received.get()},
      {"timeouts", c.timeouts.get()},
      {"retransmitted_packets", c.retransmitted_packets.get()},
      {"rx_packets", traffic.rx_packets},
      {"tx_packets", traffic.tx_packets},
      {"ecn_marked_received", c.ecn_marked_received.get()},
      {"cnps_sent", c.cnps_sent.get()},
      {"cnps_received", c.cnps_received.get()},
      {"cnps_ignored", c.cnps_ignored.get()},
      {"path_changes", c.path_changes.get()},
      {"paced_waits", c.paced_waits.get()},
      {"doorbells_bad", c.doorbells_bad.get()},
      {"raw_sent", c.raw_sent.get()},
      {"raw_refused", c.raw_refused.get()},
      {"raw_received", c.raw_received.get()},
      {"raw_unclaimed", c.raw_unclaimed.get()},
      {"probes", c.probes.get()},
      {"sacks_sent", c.sacks_sent.get()},
      {"sacks_received", c.sacks_received.get()},
      {"hellos_sent", c.hellos_sent.get()},
      {"hellos_received", c.hellos_received.get()},
      {"parked_packets", c.parked_packets.get()},
      {"spurious_retransmissions", c.spurious_retransmissions.get()},
      {"parked_now", endpoint_->engine().parked_frames()},
  };
  for (std::size_t i = 0; i < wire::kDropCount; ++i) {
    values[fmt::format("drop_{}", wire::name(static_cast<wire::Drop>(i)))] = c.drops[i].get();
  }
  for (const auto& [name, value] : values) {
    const auto expected = words.number(name);
    if (expected && *expected != value) words.error(fmt::format("{} is {}", name, value));
  }
  words.done();
}

}  // namespace uroce::test
