// Links and queues: what their numbers say is what frames get.
#include <gtest/gtest.h>

#include <map>

#include "tests/sim/port.h"
#include "tests/sim/switch.h"
#include "tests/support/encode.h"

namespace uroce::sim {
namespace {

/// Notes when which frame arrives.
class Arrivals : public Receiver {
 public:
  explicit Arrivals(const EventQueue& events) : events_(events) {}
  void receive(FramePtr frame) override {
    times.push_back(events_.now());
    numbers.push_back(load_be32(frame->storage.data() + frame->length - 4));
    ecn.push_back(load8(frame->storage.data() + 15) & 3);
  }
  std::vector<Picos> times;
  std::vector<uint32_t> numbers;
  std::vector<int> ecn;

 private:
  const EventQueue& events_;
};

/// One port and what comes out at the end of its link.
struct Line {
  explicit Line(const PortOptions& options) : port(events, options, arrivals) {}

  // An IPv4 frame of `bytes` bytes whose last four number it.
  void send(uint32_t bytes, uint8_t ecn = 0) {
    FramePtr frame = pool.take();
    frame->length = bytes;
    std::fill_n(frame->storage.begin(), bytes, std::byte{0});
    store_be16(frame->storage.data() + 12, 0x0800);
    store_be16(frame->storage.data() + 14, 0x4500 | ecn);
    store_be32(frame->storage.data() + bytes - 4, next++);
    port.receive(std::move(frame));
  }

  EventQueue events;
  FramePool pool;
  Arrivals arrivals{events};
  Port port;
  uint32_t next = 0;
};

TEST(Port, RateAndDelayAreExact) {
  Line line({.gbps = 100, .delay = std::chrono::microseconds(5)});
  for (int i = 0; i < 1000; ++i) line.send(41);
  line.events.run_until(std::chrono::seconds(1));
  ASSERT_EQ(line.arrivals.times.size(), 1000u);
  // 41 bytes and 24 of overhead at 80 ps each.
  for (int i = 0; i < 1000; ++i) {
    EXPECT_EQ(line.arrivals.times[static_cast<std::size_t>(i)], Picos(5'000'000 + (i + 1) * 65 * 80));
  }
}

TEST(Port, ARateThatPicosecondsDoNotDivideIsKeptInTheLongRun) {
  Line line({.gbps = 3});
  for (int i = 0; i < 3000; ++i) line.send(1000);
  line.events.run_until(std::chrono::seconds(1));
  EXPECT_EQ(line.arrivals.times.back(), Picos(int64_t{1024} * 8000 * 1000));
}

TEST(Port, AnIdleLinkBeginsAtOnce) {
  Line line({.gbps = 10});
  line.events.run_until(std::chrono::microseconds(7));
  line.send(101);
  EXPECT_EQ(line.port.queued_frames(), 1u);
  EXPECT_EQ(line.port.next_departure(), Picos(7'000'000 + 125 * 800));
  line.events.run_until(std::chrono::microseconds(8));
  EXPECT_EQ(line.port.queued_frames(), 0u);
  EXPECT_EQ(line.arrivals.times.front(), Picos(7'000'000 + 125 * 800));
}

TEST(Port, AFullQueueDropsWhatComesLastAndCountsIt) {
  Line line({.queue_bytes = 10'000});
  for (int i = 0; i < 15; ++i) line.send(1000);
  EXPECT_EQ(line.port.counters().queue_drops, 5u);
  EXPECT_EQ(line.port.counters().max_queued, 10'000u);
  EXPECT_EQ(line.port.queued_bytes(), 10'000u);
  line.events.run_until(line.port.next_departure());
  line.send(1000);
  EXPECT_EQ(line.port.counters().queue_drops, 5u);
  line.events.run_until(std::chrono::seconds(1));
  ASSERT_EQ(line.arrivals.numbers.size(), 11u);
  EXPECT_EQ(line.arrivals.numbers[9], 9u);
  EXPECT_EQ(line.arrivals.numbers[10], 15u);
}

TEST(Port, MarksWithTheChanceThatTheQueueAsksFor) {
  constexpr int kRounds = 4000;
  std::map<uint32_t, int> marked;
  for (int round = 0; round < kRounds; ++round) {
    Line line({.ecn = {.kmin = 10'000, .kmax = 20'000, .pmax = 0.4}, .seed = static_cast<uint64_t>(round)});
    for (int i = 0; i < 30; ++i) line.send(1000, 2);
    line.events.run_until(std::chrono::seconds(1));
    for (uint32_t i = 0; i < 30; ++i) marked[i] += line.arrivals.ecn[i] == 3 ? 1 : 0;
  }
  // Frame i finds i * 1000 bytes in front of it.
  EXPECT_EQ(marked[10], 0);
  EXPECT_NEAR(marked[15] / double{kRounds}, 0.2, 0.03);
  EXPECT_NEAR(marked[20] / double{kRounds}, 0.4, 0.03);
  EXPECT_EQ(marked[21], kRounds);
}

TEST(Port, LeavesFramesWithoutEcnUnmarked) {
  Line line({.ecn = {.kmin = 0, .kmax = 1, .pmax = 1}});
  for (int i = 0; i < 30; ++i) line.send(1000, 0);
  line.events.run_until(std::chrono::seconds(1));
  EXPECT_EQ(line.port.counters().marked, 0u);
  EXPECT_EQ(std::ranges::count(line.arrivals.ecn, 0), 30);
}

TEST(Marking, KeepsChecksumAndIcrcRight) {
  for (const bool v6 : {false, true}) {
    for (const bool tagged : {false, true}) {
      wire::Route route;
      route.sgid = v6 ? Gid{{0x20, 1}} : Gid::from_ipv4(0x0a000001);
      route.dgid = v6 ? Gid{{0x20, 2}} : Gid::from_ipv4(0x0a000002);
      if (tagged) route.vlan = 5;
      route.traffic_class = 0x6a;  // ECT(0)
      wire::Packet packet;
      packet.bth.opcode = wire::Opcode::rc_send_only;
      std::array<std::byte, 200> frame{};
      const std::size_t length = test::encode(frame, packet, route, std::array<std::byte, 40>{});
      ASSERT_NE(length, 0u);
      ASSERT_TRUE(mark_congestion(std::span(frame).first(length)));
      const auto parsed = wire::parse(std::span(frame).first(length));
      ASSERT_TRUE(parsed.has_value()) << wire::name(parsed.error());
      EXPECT_EQ(parsed->ecn, 3);
      EXPECT_EQ(test::route_of(*parsed).traffic_class, 0x6b);
    }
  }
}

TEST(Loss, TakesTheShareThatWasAskedFor) {
  Line line({.impairments = {.loss = 0.1}});
  for (int i = 0; i < 50'000; ++i) line.send(64);
  EXPECT_NEAR(static_cast<double>(line.port.counters().lost), 5000, 300);
  line.events.run_until(std::chrono::seconds(1));
  EXPECT_EQ(line.arrivals.numbers.size() + line.port.counters().lost, 50'000u);
}

TEST(Loss, ComesInBurstsOfTheLengthThatWasAskedFor) {
  constexpr Picos kFrame{1000};
  LossModel model({.burst_loss = 0.05, .burst_length = 10}, kFrame, 7);
  int lost = 0, bursts = 0;
  bool before = false;
  constexpr int kFrames = 400'000;
  for (int i = 0; i < kFrames; ++i) {
    const bool now = model.loses(kFrame * i);
    lost += now ? 1 : 0;
    bursts += now && !before ? 1 : 0;
    before = now;
  }
  EXPECT_NEAR(lost / double{kFrames}, 0.05, 0.005);
  EXPECT_NEAR(lost / static_cast<double>(bursts), 10.5, 0.7);  // those between two frames are not seen
}

TEST(Reordering, MovesFramesByNoMoreThanWasAskedForAndLosesNone) {
  Line line({.impairments = {.reorder = 32}});
  constexpr uint32_t kFrames = 20'000;
  for (uint32_t i = 0; i < kFrames; ++i) line.send(4000);
  line.events.run_until(std::chrono::seconds(1));
  ASSERT_EQ(line.arrivals.numbers.size(), kFrames);
  uint32_t newest = 0, moved = 0, most = 0;
  std::vector<bool> seen(kFrames);
  for (const uint32_t number : line.arrivals.numbers) {
    EXPECT_FALSE(seen[number]);
    seen[number] = true;
    newest = std::max(newest, number);
    moved += number < newest ? 1 : 0;
    most = std::max(most, newest - number);
  }
  EXPECT_LE(most, 32u);
  EXPECT_GT(most, 24u);
  EXPECT_GT(moved, kFrames / 2);
}

TEST(Reordering, HoldsTheLastFrameNoLongerThanOthersWouldTake) {
  Line line({.gbps = 100, .impairments = {.reorder = 32}});
  for (int i = 0; i < 8; ++i) line.send(4000);
  line.events.run_until(std::chrono::microseconds(50));
  EXPECT_EQ(line.arrivals.numbers.size(), 8u);
}

TEST(Switch, KeepsAFlowOnItsPathAndSpreadsFlows) {
  EventQueue events;
  FramePool pool;
  std::vector<std::unique_ptr<Arrivals>> ends;
  std::vector<std::unique_ptr<Port>> ports;
  Switch fork(3);
  for (int i = 0; i < 4; ++i) {
    ends.push_back(std::make_unique<Arrivals>(events));
    ports.push_back(std::make_unique<Port>(events, PortOptions{}, *ends.back()));
    fork.add_way(0, *ports.back());
  }
  const auto send = [&](uint16_t udp_source) {
    FramePtr frame = pool.take();
    frame->length = 100;
    frame->storage.fill(std::byte{0});
    store_be16(frame->storage.data() + 34, udp_source);
    store_be32(frame->storage.data() + 96, udp_source);
    fork.receive(std::move(frame));
  };
  for (uint16_t flow = 0; flow < 400; ++flow) {
    for (int i = 0; i < 3; ++i) send(static_cast<uint16_t>(0xc000 + flow));
  }
  events.run_until(std::chrono::seconds(1));
  for (const auto& end : ends) {
    EXPECT_NEAR(static_cast<double>(end->numbers.size()), 300, 75);
    std::map<uint32_t, int> by_flow;
    for (const uint32_t flow : end->numbers) ++by_flow[flow];
    for (const auto& [flow, frames] : by_flow) EXPECT_EQ(frames, 3) << flow;
  }
}

}  // namespace
}  // namespace uroce::sim
