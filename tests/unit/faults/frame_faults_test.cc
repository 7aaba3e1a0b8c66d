#include "faults/frame_faults.h"

#include <gtest/gtest.h>

#include <bit>
#include <cerrno>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/faults/frames.h"

namespace uroce::faults {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::Bytes;

constexpr std::size_t kLongest = 2048;

/// Frames that pass rules, and what became of them.
class Wire {
 public:
  explicit Wire(std::string_view rules, uint64_t seed = 1) : set_(seed) {
    const auto added = set_.add(rules, "rules", Nanos(0));
    EXPECT_TRUE(added) << added.error().text;
    faults_ = std::make_unique<FrameFaults>(set_.all(), "uroce0", kLongest, counters, &qps_);
  }

  void pass(Bytes frame, Way way = Way::rx) {
    release();
    if (faults_->take(way, frame, now)) out.push_back(std::move(frame));
    release();
  }
  void pass_psns(uint32_t first, uint32_t last, std::string_view words = "RC SEND_ONLY qp=0x12 payload=64") {
    for (uint32_t psn = first; psn <= last; ++psn)
      pass(test::frame(std::string(words) + " psn=" + std::to_string(psn)));
  }
  void advance(Nanos time) {
    now += time;
    release();
  }
  void release() {
    for (const Way way : {Way::rx, Way::tx, Way::loopback}) {
      faults_->release(way, now, [&](std::span<const std::byte> frame) {
        out.emplace_back(frame.begin(), frame.end());
        return true;
      });
    }
  }
  std::vector<uint32_t> psns() const {
    std::vector<uint32_t> all;
    for (const Bytes& frame : out) all.push_back(wire::parse(frame, wire::Icrc::skip)->bth.psn.value());
    return all;
  }
  const ActiveRule& rule(std::size_t i = 0) const { return *set_.all()[i]; }
  FrameFaults& faults() { return *faults_; }

  Nanos now{milliseconds(1)};
  std::vector<Bytes> out;
  FaultCounters counters;

 private:
  /// One queue pair here, 0x12, whose peer's is 0x34.
  class Qps final : public QpView {
   public:
    std::optional<uint32_t> sender_of(Way way, const wire::Packet& packet) override {
      const bool sent = way == Way::tx;
      if (packet.bth.dest_qpn != (sent ? 0x34 : 0x12)) return std::nullopt;
      return sent ? 0x12 : 0x34;
    }
  };
  Qps qps_;
  RuleSet set_;
  std::unique_ptr<FrameFaults> faults_;
};

using Psns = std::vector<uint32_t>;

wire::Route to_peer() { return test::route_between(Gid::from_ipv4(test::kHere), Gid::from_ipv4(test::kPeer)); }

TEST(FrameFaults, DropsTheNth) {
  Wire wire("drop rx nth=3");
  wire.pass_psns(1, 5);
  EXPECT_EQ(wire.psns(), (Psns{1, 2, 4, 5}));
  EXPECT_EQ(wire.rule().chosen, 5);
  EXPECT_EQ(wire.rule().hits, 1);
  EXPECT_EQ(wire.counters.injected.get(), 1);
}

TEST(FrameFaults, DropsByRangeCountAndEvery) {
  Wire range("drop nth=2-3");
  range.pass_psns(1, 5);
  EXPECT_EQ(range.psns(), (Psns{1, 4, 5}));
  Wire every("drop every=2 count=2");
  every.pass_psns(1, 7);
  EXPECT_EQ(every.psns(), (Psns{1, 3, 5, 6, 7}));
}

TEST(FrameFaults, FramesThatNoRuleChoosesAreNotCounted) {
  Wire wire("drop rx opcode=ack nth=1");
  wire.pass_psns(1, 2);
  wire.pass(test::frame("RC ACK qp=0x12 psn=3"), Way::tx);
  wire.pass(test::frame("RC ACK qp=0x12 psn=4"));
  wire.pass(Bytes(60));  // no RoCE
  EXPECT_EQ(wire.rule().chosen, 1);
  EXPECT_EQ(wire.out.size(), 4);
}

TEST(FrameFaults, AChanceIsThatOfItsSeed) {
  const auto passed = [](std::string_view rule, uint64_t seed) {
    Wire wire(rule, seed);
    wire.pass_psns(1, 400);
    return wire.psns();
  };
  const auto first = passed("drop probability=0.25 seed=7", 1);
  EXPECT_EQ(first, passed("drop probability=0.25 seed=7", 2));
  EXPECT_NE(first, passed("drop probability=0.25 seed=8", 1));
  EXPECT_GT(first.size(), 260);
  EXPECT_LT(first.size(), 340);
  // Without a seed, the run's counts.
  EXPECT_EQ(passed("drop probability=0.25", 1), passed("drop probability=0.25", 1));
  EXPECT_NE(passed("drop probability=0.25", 1), passed("drop probability=0.25", 2));
}

TEST(FrameFaults, DelaysAndKeepsTheOrder) {
  Wire wire("delay 5ms psn=1-2");
  wire.pass_psns(1, 3);
  EXPECT_EQ(wire.psns(), (Psns{3}));
  EXPECT_EQ(wire.faults().due(), wire.now + milliseconds(5));
  wire.advance(milliseconds(5) - Nanos(1));
  EXPECT_EQ(wire.out.size(), 1);
  wire.advance(Nanos(1));
  EXPECT_EQ(wire.psns(), (Psns{3, 1, 2}));
  EXPECT_EQ(wire.faults().due(), kNever);
  EXPECT_EQ(wire.out[1], test::frame("RC SEND_ONLY qp=0x12 payload=64 psn=1"));
}

TEST(FrameFaults, DuplicatesRightBehind) {
  Wire wire("duplicate nth=2");
  wire.pass_psns(1, 3);
  EXPECT_EQ(wire.psns(), (Psns{1, 2, 2, 3}));
  EXPECT_EQ(wire.out[1], wire.out[2]);
}

TEST(FrameFaults, ReordersByCountOrAfterAWhile) {
  Wire wire("reorder 2 nth=1");
  wire.pass_psns(1, 1);
  wire.pass(test::frame("RC SEND_ONLY qp=0x13 psn=77 payload=64"));  // another queue pair's
  wire.pass_psns(2, 4);
  EXPECT_EQ(wire.psns(), (Psns{77, 2, 3, 1, 4}));
  Wire last("reorder nth=1");
  last.pass_psns(1, 1);
  last.advance(milliseconds(10) - Nanos(1));
  EXPECT_TRUE(last.out.empty());
  last.advance(Nanos(1));
  EXPECT_EQ(last.psns(), (Psns{1}));
  // The later ones count anew.
  last.pass_psns(2, 3);
  EXPECT_EQ(last.psns(), (Psns{1, 2, 3}));
}

std::size_t bits_that_differ(const Bytes& a, const Bytes& b) {
  std::size_t bits = 0;
  for (std::size_t i = 0; i < a.size(); ++i) bits += std::popcount(static_cast<unsigned>(a[i] ^ b[i]));
  return bits;
}

TEST(FrameFaults, CorruptsAPartWithTheIcrcWrong) {
  const Bytes before = test::frame("RC SEND_ONLY qp=0x12 psn=1 payload=61");
  for (const std::string_view part : {"payload", "header", "icrc"}) {
    for (int seed = 0; seed < 50; ++seed) {
      Wire wire("corrupt " + std::string(part) + " seed=" + std::to_string(seed));
      wire.pass(before);
      ASSERT_EQ(wire.out.size(), 1);
      EXPECT_EQ(bits_that_differ(wire.out[0], before), 1) << part;
      const auto packet = wire::parse(wire.out[0]);
      ASSERT_FALSE(packet) << part;
      EXPECT_TRUE(part == "header" || packet.error() == wire::Drop::icrc) << part;
    }
  }
}

TEST(FrameFaults, CorruptsPayloadWithTheIcrcRight) {
  const Bytes before = test::frame("RC SEND_ONLY qp=0x12 psn=1 payload=61");
  Wire wire("corrupt payload icrc=right at=60");
  wire.pass(before);
  const auto packet = wire::parse(wire.out[0]);
  ASSERT_TRUE(packet);
  const auto was = wire::parse(before)->payload;
  EXPECT_TRUE(std::ranges::equal(packet->payload.first(60), was.first(60)));
  EXPECT_NE(packet->payload[60], was[60]);
}

TEST(FrameFaults, CorruptsHeadersWithTheIcrcRight) {
  Wire wire("corrupt header icrc=right at=11");  // the PSN's low byte
  wire.pass(test::frame("RC SEND_ONLY qp=0x12 psn=0x100 payload=4"));
  const auto packet = wire::parse(wire.out[0]);
  ASSERT_TRUE(packet);
  EXPECT_EQ(packet->bth.psn.value() & 0xffff00, 0x100);
  EXPECT_NE(packet->bth.psn.value(), 0x100);
}

TEST(FrameFaults, WhatCannotBeCorruptedIsNotCounted) {
  Wire wire("corrupt payload nth=1\ncorrupt payload at=64 nth=1");
  const Bytes ack = test::frame("RC ACK qp=0x12 psn=3");
  wire.pass(ack);
  EXPECT_EQ(wire.out[0], ack);
  wire.pass_psns(1, 1);
  EXPECT_EQ(wire.rule(0).hits, 1);
  EXPECT_EQ(wire.rule(1).chosen, 0);
}

TEST(FrameFaults, MarksEcnOfBothKindsOfIp) {
  Wire wire("mark ecn");
  const Gid there{{0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  wire.pass(test::frame("RC SEND_ONLY qp=0x12 psn=1 payload=4"));
  wire.pass(test::frame("RC SEND_ONLY qp=0x12 psn=1 payload=4", test::route_between(there, there)));
  for (const Bytes& frame : wire.out) {
    const auto packet = wire::parse(frame);  // checks the header's sum, and the ICRC
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->ecn, 3);
  }
}

TEST(FrameFaults, ThrottlesAllChosenFramesTogether) {
  const std::size_t bytes = test::frame("RC SEND_ONLY qp=0x12 psn=1 payload=64").size();
  Wire wire("throttle 1Mbit");
  const Nanos each(bytes * 8000);
  wire.pass_psns(1, 3);
  EXPECT_TRUE(wire.out.empty());
  wire.advance(each);
  EXPECT_EQ(wire.psns(), (Psns{1}));
  wire.advance(each);
  EXPECT_EQ(wire.psns(), (Psns{1, 2}));
  wire.advance(10 * each);
  EXPECT_EQ(wire.psns(), (Psns{1, 2, 3}));
  // Time without frames is not saved up.
  wire.pass_psns(4, 5);
  wire.advance(each);
  EXPECT_EQ(wire.psns(), (Psns{1, 2, 3, 4}));
}

TEST(FrameFaults, APartitionCutsBothDirections) {
  Wire wire("partition peer=192.0.2.2");
  wire.pass_psns(1, 2);
  wire.pass(test::frame("RC SEND_ONLY qp=0x12 psn=3 payload=4", to_peer()), Way::tx);
  const auto elsewhere = test::route_between(Gid::from_ipv4(test::kHere), Gid::from_ipv4(test::kPeer + 1));
  wire.pass(test::frame("RC SEND_ONLY qp=0x12 psn=4 payload=4", elsewhere), Way::tx);
  EXPECT_EQ(wire.psns(), (Psns{4}));
}

TEST(FrameFaults, RulesWorkTogetherInTheirOrder) {
  Wire wire("mark ecn\ndrop nth=1\ndelay 1ms\nduplicate nth=1");
  wire.pass_psns(1, 2);
  EXPECT_TRUE(wire.out.empty());
  wire.advance(milliseconds(1));
  EXPECT_EQ(wire.psns(), (Psns{2, 2}));
  EXPECT_EQ(wire.rule(0).hits, 2);
  EXPECT_EQ(wire.rule(2).chosen, 1);  // what was dropped meets no later rule
  EXPECT_EQ(wire::parse(wire.out[0])->ecn, 3);
}

TEST(FrameFaults, KeepsABoundedNumber) {
  Wire wire("delay 1s");
  wire.pass_psns(1, HeldFrames::kMost + 3);
  EXPECT_EQ(wire.counters.overflow.get(), 3);
  EXPECT_EQ(wire.rule().overflow, 3);
  wire.advance(std::chrono::seconds(1));
  EXPECT_EQ(wire.out.size(), HeldFrames::kMost);
  wire.out.clear();
  wire.pass_psns(1, 2);
  wire.advance(std::chrono::seconds(1));
  EXPECT_EQ(wire.psns(), (Psns{1, 2}));
  wire.pass(test::frame("RC SEND_ONLY qp=0x12 psn=9 payload=4096"));  // longer than the device's
  EXPECT_EQ(wire.counters.overflow.get(), 4);
}

TEST(FrameFaults, AFrameWithoutRoomStays) {
  Wire wire("delay 1ms");
  Bytes frame = test::frame("RC SEND_ONLY qp=0x12 psn=1 payload=4");
  EXPECT_FALSE(wire.faults().take(Way::tx, frame, wire.now));
  wire.now += milliseconds(1);
  int asked = 0;
  wire.faults().release(Way::tx, wire.now, [&](auto) {
    ++asked;
    return false;
  });
  EXPECT_EQ(asked, 1);
  wire.release();
  EXPECT_EQ(wire.psns(), (Psns{1}));
}

TEST(FrameFaults, NewRulesTakeOverWhatWasKept) {
  Wire old("delay 1s"), next("drop nth=1");
  old.pass_psns(1, 2);
  next.faults().succeed(old.faults());
  EXPECT_EQ(old.faults().due(), kNever);
  next.advance(milliseconds(999));
  EXPECT_TRUE(next.out.empty());
  next.faults().end();
  next.release();
  EXPECT_EQ(next.psns(), (Psns{1, 2}));
}

TEST(FrameFaults, RulesOfAnotherDeviceAreNotAsked) {
  Wire wire("drop device=uroce1\ndrop device=uroce0 nth=1");
  wire.pass_psns(1, 2);
  EXPECT_EQ(wire.psns(), (Psns{2}));
}

TEST(FrameFaults, ARuleHoldsFromItsTimeToItsEnd) {
  Wire wire("drop after=2ms for=3ms");  // it begins at 0, and the first frame comes at 1 ms
  for (uint32_t psn = 1; psn <= 6; ++psn) {
    wire.pass_psns(psn, psn);
    wire.advance(milliseconds(1));
  }
  EXPECT_EQ(wire.psns(), (Psns{1, 5, 6}));
  EXPECT_EQ(wire.rule().chosen, 3) << "before and after, it counts none";
}

TEST(FrameFaults, ALinkThatIsDownLosesAllFrames) {
  Wire wire("link_down 2ms");
  wire.pass_psns(1, 2);
  wire.advance(milliseconds(1));
  wire.pass_psns(3, 3);
  EXPECT_EQ(wire.psns(), (Psns{3}));
}

/// The answer, which goes the other way.
wire::Packet answer_to(Wire& wire, std::string_view line, Way way = Way::rx) {
  wire.pass(test::frame(line), way);
  EXPECT_EQ(wire.out.size(), 1) << line;
  const auto answer = wire::parse(wire.out.at(0), wire::Icrc::check);
  EXPECT_TRUE(answer) << line;
  EXPECT_EQ(answer->source(), Gid::from_ipv4(test::kHere));
  EXPECT_EQ(answer->destination(), Gid::from_ipv4(test::kPeer));
  return *answer;
}

TEST(FrameFaults, AnswersRequestsWithNaks) {
  const std::pair<std::string_view, uint8_t> kAnswers[] = {
      {"rnr", wire::Aeth::rnr(12)},
      {"psn", wire::Aeth::nak(wire::NakCode::psn_sequence)},
      {"invalid", wire::Aeth::nak(wire::NakCode::invalid_request)},
      {"access", wire::Aeth::nak(wire::NakCode::remote_access)},
      {"operational", wire::Aeth::nak(wire::NakCode::remote_operational)}};
  for (const auto& [name, syndrome] : kAnswers) {
    Wire wire("answer " + std::string(name) + " nth=1");
    const wire::Packet nak = answer_to(wire, "RC SEND_ONLY qp=0x12 psn=7 payload=64");
    EXPECT_EQ(nak.bth.opcode, wire::Opcode::rc_ack);
    EXPECT_EQ(nak.bth.dest_qpn, 0x34);
    EXPECT_EQ(nak.bth.psn, Psn(7));
    EXPECT_EQ(nak.aeth.syndrome, syndrome) << name;
  }
}

TEST(FrameFaults, AnswersWhatIsSentAsThePeer) {
  Wire wire("answer access tx");
  const wire::Packet nak = answer_to(wire, "RC WRITE_ONLY qp=0x34 psn=7 va=0 rkey=1 len=8 payload=8", Way::tx);
  EXPECT_EQ(nak.bth.dest_qpn, 0x12);
}

/// An acknowledgment by the responder here, and what goes out.
void acknowledge(Wire& wire, uint32_t psn, std::string_view words = "RC ACK qp=0x34 syndrome=ack credits=31 msn=1") {
  wire.pass(test::frame(std::string(words) + " psn=" + std::to_string(psn), to_peer()), Way::tx);
}

/// The PSNs of the NAKs that a rule has sent.
Psns naks(const Wire& wire) {
  Psns all;
  for (const Bytes& frame : wire.out) {
    const auto packet = wire::parse(frame);
    if (packet && packet->op().flags.has(wire::Op::aeth) && packet->aeth.syndrome == wire::Aeth::rnr(12)) {
      EXPECT_EQ(packet->bth.dest_qpn, 0x34);
      all.push_back(packet->bth.psn.value());
    }
  }
  return all;
}

// IBTA vol. 1, 9.7.5.2: a NAK acknowledges all packets before its own.
TEST(FrameFaults, AnAnswerWaitsForWhatWasLostBefore) {
  Wire wire("drop psn=2 count=1\nanswer rnr psn=4 count=1");
  wire.pass_psns(1, 4);
  EXPECT_EQ(naks(wire), Psns{}) << "the responder lacks 2";
  acknowledge(wire, 1);
  wire.pass_psns(2, 4);
  EXPECT_EQ(naks(wire), Psns{}) << "nobody knows that it has 3";
  EXPECT_EQ(wire.psns(), (Psns{1, 3, 1, 2, 3})) << "4 is lost as long as its NAK waits";
  acknowledge(wire, 3);
  EXPECT_EQ(naks(wire), (Psns{4}));
  wire.pass_psns(4, 4);
  EXPECT_EQ(wire.psns().back(), 4) << "its requester sends it again";
  EXPECT_EQ(wire.rule(1).hits, 1);
}

TEST(FrameFaults, ResponsesTellWhatTheResponderExpects) {
  constexpr std::string_view kKinds[] = {"RC ACK qp=0x34 syndrome=nak code=0 msn=1",
                                         "RC ACK qp=0x34 syndrome=rnr timer=1 msn=1",
                                         "SACK qp=0x34 syndrome=nak code=0 msn=1"};
  for (const std::string_view kind : kKinds) {
    Wire wire("answer rnr psn=3");
    wire.pass_psns(1, 3);
    acknowledge(wire, 2, kind);
    EXPECT_EQ(naks(wire), Psns{}) << kind;
    acknowledge(wire, 3, kind);
    EXPECT_EQ(naks(wire), (Psns{3})) << kind;
  }
  Wire read("answer rnr psn=12");
  read.pass(test::frame("RC READ_REQUEST qp=0x12 psn=10 va=0 rkey=1 len=2048"));
  read.pass_psns(12, 12);
  acknowledge(read, 10, "RC READ_RESPONSE_FIRST qp=0x34 syndrome=ack credits=31 msn=1 payload=1024");
  EXPECT_EQ(naks(read), Psns{});
  acknowledge(read, 11, "RC READ_RESPONSE_LAST qp=0x34 syndrome=ack credits=31 msn=2 payload=1024");
  EXPECT_EQ(naks(read), (Psns{12}));
}

TEST(FrameFaults, ACorruptResponseTellsNothing) {
  Wire wire("answer rnr psn=3");
  wire.pass_psns(1, 3);
  Bytes ack = test::frame("RC ACK qp=0x34 psn=2 syndrome=ack credits=31 msn=1", to_peer());
  ack.back() ^= std::byte{1};
  wire.pass(ack, Way::tx);
  EXPECT_EQ(wire.out.size(), 3);
  acknowledge(wire, 2);
  EXPECT_EQ(naks(wire), (Psns{3}));
}

TEST(FrameFaults, AnAnswerDoesNotWaitForEver) {
  Wire wire("answer rnr psn=3 count=1");
  wire.pass_psns(1, 3);
  for (int i = 0; i < 3; ++i) wire.pass_psns(3, 3);
  EXPECT_EQ(wire.psns(), (Psns{1, 2, 3}));
  acknowledge(wire, 3);
  wire.pass_psns(2, 3);
  EXPECT_EQ(naks(wire), Psns{}) << "the responder has both";
}

TEST(FrameFaults, AnotherConnectionOfAQueuePairBeginsAnew) {
  Wire wire("answer rnr");
  wire.pass_psns(1, 1);
  wire.pass_psns(0x700000, 0x700000);
  wire.pass_psns(5, 5);
  EXPECT_EQ(naks(wire), (Psns{1, 0x700000, 5}));
}

TEST(FrameFaults, FollowsABoundedNumberOfConnections) {
  Responders all;
  const Bytes bytes = test::frame("RC SEND_ONLY qp=0x12 payload=64 psn=5");
  const auto packet = wire::parse(bytes);
  for (uint32_t asker = 0; asker < Responders::kMost; ++asker) {
    EXPECT_EQ(all.of_request(Way::rx, *packet, asker).turn_of(Psn(5)), Responder::Turn::now);
  }
  const Bytes late = test::frame("RC ACK qp=0x5000 psn=6 syndrome=ack credits=31 msn=1", to_peer());
  EXPECT_EQ(all.of_request(Way::rx, *packet, 0x5000).turn_of(Psn(5)), Responder::Turn::never) << "it may come back";
  EXPECT_TRUE(all.note_response(Way::tx, *wire::parse(late)).empty());
  EXPECT_EQ(all.of_request(Way::rx, *packet, 0x5000).turn_of(Psn(7)), Responder::Turn::now);
}

TEST(FrameFaults, AnswersNothingElse) {
  Wire wire("answer access\nanswer rnr\nanswer reject");
  wire.pass(test::frame("UC SEND_ONLY qp=0x12 psn=1 payload=64"));
  wire.pass(test::frame("RC ACK qp=0x12 psn=1 syndrome=ack credits=31 msn=1"));
  wire.pass(test::frame("RC SEND_ONLY qp=0x13 psn=1 payload=64"));  // a queue pair that is not there
  EXPECT_EQ(wire.out.size(), 3);
  EXPECT_EQ(wire.counters.injected.get(), 0);
}

TEST(FrameFaults, EnginesStandStillForTheSum) {
  Wire wire("stall 2ms nth=1\nstall 1ms");
  wire.pass_psns(1, 2);
  EXPECT_EQ(wire.psns(), (Psns{1, 2}));
  EXPECT_EQ(wire.faults().take_stall(), milliseconds(4));
  EXPECT_EQ(wire.faults().take_stall(), Nanos(0));
}

TEST(FrameFaults, FramesOfAQueuePairThatEndsAreLost) {
  Wire wire("break nth=2");
  wire.pass_psns(1, 3);
  wire.pass(test::frame("RC ACK qp=0x34 psn=1 syndrome=ack credits=31 msn=1"), Way::tx);
  EXPECT_EQ(wire.psns(), (Psns{1}));
  EXPECT_EQ(wire.faults().take_ended(), (std::vector<uint32_t>{0x12}));
  wire.pass_psns(4, 4);
  EXPECT_EQ(wire.psns(), (Psns{1, 4})) << "the engine drops them now";
}

TEST(RuleSet, NumbersAreNotUsedAgain) {
  RuleSet set(1);
  EXPECT_EQ(set.add("drop\ndelay 1ms", "a", Nanos(0)).value().size(), 2);
  EXPECT_TRUE(set.remove(2));
  EXPECT_EQ(set.remove(2).error().code, ENOENT);
  EXPECT_EQ(set.add("drop", "a", Nanos(0)).value()[0]->number, 3);
  set.clear();
  EXPECT_TRUE(set.all().empty());
}

TEST(RuleSet, TakesAllRulesOrNone) {
  RuleSet set(1);
  EXPECT_EQ(set.add("drop\nlose", "a", Nanos(0)).error().code, EINVAL);
  EXPECT_TRUE(set.all().empty());
  std::string many;
  for (std::size_t i = 0; i <= RuleSet::kMost; ++i) many += "drop\n";
  EXPECT_EQ(set.add(many, "a", Nanos(0)).error().code, ENOSPC);
}

}  // namespace
}  // namespace uroce::faults
