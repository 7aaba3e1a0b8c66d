// The small parts of loss recovery: sets of PSNs, round-trip times, moments, the pool of parked frames.
#include "transport/qp/recovery.h"

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <vector>

#include "base/random.h"
#include "tests/support/test_endpoint.h"
#include "transport/core/frame_pool.h"
#include "wire/encode.h"
#include "wire/recovery.h"

namespace uroce::transport {
namespace {

TEST(PsnSet, HoldsWhatWasAdded) {
  PsnSet set;
  EXPECT_TRUE(set.empty());
  for (const uint32_t psn : {0u, 63u, 64u, 1023u, 0xffff00u}) set.add(Psn(psn));
  EXPECT_TRUE(set.has(Psn(63)));
  EXPECT_TRUE(set.has(Psn(1023)));
  EXPECT_FALSE(set.has(Psn(62)));
  EXPECT_EQ(set.count(), 5u);
  set.remove(Psn(63));
  EXPECT_FALSE(set.has(Psn(63)));
  set.clear();
  EXPECT_TRUE(set.empty());
  EXPECT_EQ(set.count(), 0u);
}

TEST(PsnSet, FindsTheNextOneWithinTheRange) {
  PsnSet set;
  const Psn from(0xfffff0);
  EXPECT_EQ(set.next(from, PsnSet::kSize), PsnSet::kSize);
  set.add(from + 100);
  EXPECT_EQ(set.next(from, PsnSet::kSize), 100u);
  EXPECT_EQ(set.next(from, 100), 100u) << "none of the next 100";
  EXPECT_EQ(set.next(from, 101), 100u);
  EXPECT_EQ(set.next(from + 100, 5), 0u);
  EXPECT_EQ(set.next(from + 101, 900), 900u);
  EXPECT_EQ(set.next(from, 0), 0u);
}

TEST(PsnSet, FindsTheNextOneThatIsMissing) {
  PsnSet set;
  const Psn from(0xfffff0);
  for (uint32_t i = 0; i < 200; ++i) set.add(from + i);
  EXPECT_EQ(set.next(from, PsnSet::kSize, false), 200u);
  EXPECT_EQ(set.next(from, 150, false), 150u);
  set.remove(from + 70);
  EXPECT_EQ(set.next(from, PsnSet::kSize, false), 70u);
}

TEST(PsnSet, TakesOutARangeAcrossTheWrap) {
  PsnSet set;
  const Psn from(0xffffff - 100);
  for (uint32_t i = 0; i < PsnSet::kSize; ++i) set.add(from + i);
  set.remove_from(from + 10, 500);
  EXPECT_EQ(set.count(), PsnSet::kSize - 500);
  EXPECT_TRUE(set.has(from + 9));
  EXPECT_FALSE(set.has(from + 10));
  EXPECT_FALSE(set.has(from + 509));
  EXPECT_TRUE(set.has(from + 510));
  set.remove_from(from, PsnSet::kSize);
  EXPECT_TRUE(set.empty());
}

TEST(PsnSet, GivesSixtyFourBitsFromAnywhere) {
  PsnSet set;
  const Psn from(0xffffd0);
  set.add(from);
  set.add(from + 63);
  set.add(from + 64);
  EXPECT_EQ(set.bits_from(from), uint64_t{1} << 63 | 1);
  EXPECT_EQ(set.bits_from(from + 1), uint64_t{3} << 62);
}

// Against a set of the standard library, over windows that move on and wrap.
TEST(PsnSet, AgreesWithAPlainSet) {
  Random random(5);
  PsnSet set;
  std::set<uint32_t> plain;  // distances from `base`
  const Psn base(0xfffc00);
  for (int step = 0; step < 20'000; ++step) {
    const auto at = static_cast<uint32_t>(random.below(PsnSet::kSize));
    const auto n = static_cast<uint32_t>(random.below(PsnSet::kSize - at + 1));
    switch (random.below(5)) {
      case 0:
      case 1:
        set.add(base + at);
        plain.insert(at);
        break;
      case 2:
        set.remove(base + at);
        plain.erase(at);
        break;
      case 3: {
        const auto some = std::min(n, 20u);
        set.remove_from(base + at, some);
        plain.erase(plain.lower_bound(at), plain.lower_bound(at + some));
        break;
      }
      default: {
        const auto it = plain.lower_bound(at);
        const uint32_t expected = it == plain.end() ? n : std::min(n, *it - at);
        ASSERT_EQ(set.next(base + at, n), expected) << "from " << at << " within " << n;
        uint32_t missing = 0;
        while (missing < n && plain.contains(at + missing)) ++missing;
        ASSERT_EQ(set.next(base + at, n, false), missing) << "from " << at << " within " << n;
      }
    }
    ASSERT_EQ(set.count(), plain.size());
  }
}

TEST(RttEstimator, BeginsWithTheFirstSample) {
  RttEstimator rtt;
  EXPECT_FALSE(rtt.known());
  rtt.sample(Nanos(8'000));
  EXPECT_TRUE(rtt.known());
  EXPECT_EQ(rtt.smoothed(), Nanos(8'000));
  EXPECT_EQ(rtt.variation(), Nanos(4'000));
}

TEST(RttEstimator, SmoothsAsRfc6298Says) {
  RttEstimator rtt;
  rtt.sample(Nanos(8'000));
  rtt.sample(Nanos(16'000));
  EXPECT_EQ(rtt.variation(), Nanos(5'000));  // 4000 + (8000 - 4000) / 4
  EXPECT_EQ(rtt.smoothed(), Nanos(9'000));   // 8000 + (16000 - 8000) / 8
}

TEST(RttEstimator, TakesWhatIsNotPositiveForTheLeast) {
  RttEstimator rtt;
  rtt.sample(Nanos(-100));
  EXPECT_TRUE(rtt.known());
  EXPECT_EQ(rtt.smoothed(), Nanos(1));
}

TEST(Stamp, ComparesAcrossItsWrap) {
  const Nanos wrap(int64_t{1} << 38);
  EXPECT_EQ(Stamp(wrap + Nanos(6'400)).since(Stamp(wrap - Nanos(6'400))), Nanos(12'800));
  EXPECT_EQ(Stamp(wrap - Nanos(6'400)).since(Stamp(wrap + Nanos(6'400))), Nanos(-12'800));
}

std::vector<std::byte> frame_of(std::size_t bytes, uint8_t value) {
  return std::vector<std::byte>(bytes, std::byte{value});
}

TEST(FramePool, GivesBackWhatItKept) {
  FramePool pool(2);
  const uint16_t a = pool.keep(frame_of(100, 1));
  const uint16_t b = pool.keep(frame_of(FramePool::kFrameBytes, 2));
  ASSERT_NE(a, 0);
  ASSERT_NE(b, 0);
  EXPECT_EQ(pool.used(), 2u);
  EXPECT_TRUE(std::ranges::equal(pool.frame(a), frame_of(100, 1)));
  EXPECT_TRUE(std::ranges::equal(pool.frame(b), frame_of(FramePool::kFrameBytes, 2)));
}

TEST(FramePool, IsFullAndThenNotAnyMore) {
  FramePool pool(1);
  const uint16_t a = pool.keep(frame_of(60, 1));
  EXPECT_EQ(pool.keep(frame_of(60, 2)), 0);
  pool.release(a);
  EXPECT_EQ(pool.used(), 0u);
  EXPECT_EQ(pool.keep(frame_of(60, 2)), a);
}

TEST(FramePool, RefusesWhatIsTooLong) {
  FramePool pool(1);
  EXPECT_EQ(pool.keep(frame_of(FramePool::kFrameBytes + 1, 1)), 0);
  EXPECT_EQ(pool.used(), 0u);
}

TEST(FramePool, MayHaveNoRoomAtAll) {
  FramePool pool(0);
  EXPECT_EQ(pool.keep(frame_of(60, 1)), 0);
}

// The frame of `opcode` with PSN `psn` that the peer of queue pair 2 sends.
test::Frame from_peer(test::TestEndpoint& endpoint, const test::EndpointOptions& peer, wire::Opcode opcode,
                      uint32_t psn, std::span<const std::byte> payload) {
  wire::Packet packet;
  packet.bth.opcode = opcode;
  packet.bth.dest_qpn = 2;
  packet.bth.psn = Psn(psn);
  test::Frame frame(wire::kMaxHeaderBytes + payload.size() + 8);
  frame.resize(wire::encode(frame, packet, test::make_route(peer, endpoint.options()), payload));
  return frame;
}

TEST(Parking, NothingIsKeptForAQueuePairThatIsDestroyed) {
  test::EndpointOptions options;
  options.engine.retransmission = Retransmission::automatic;
  test::EndpointOptions peer;
  peer.gid = Gid::from_ipv4(0x0a000002);
  test::TestEndpoint endpoint(options);
  auto qp = std::make_unique<test::TestQp>(
      endpoint, test::TestQp::Options{.qpn = 2, .send_cq = &endpoint.make_cq(), .recv_cq = &endpoint.make_cq()});
  qp->connect({.dest_qpn = 3, .sq_psn = 100, .rq_psn = 200}, test::make_route(endpoint.options(), peer));
  endpoint.run(Nanos(1'000));
  const auto sent = endpoint.sink().take();
  ASSERT_EQ(sent.size(), 1u);
  const auto said = wire::parse(sent[0].bytes);
  ASSERT_TRUE(said);
  const auto hello = wire::Hello::load(said->payload);
  ASSERT_TRUE(hello);

  std::array<std::byte, wire::Hello::kBytes> answer;
  wire::Hello{.epoch = 7, .peer_epoch = hello->epoch, .parking = 100, .answer = false}.store(answer.data());
  endpoint.inject(from_peer(endpoint, peer, wire::Opcode::hello, 0, answer), Nanos(2'000));
  endpoint.inject(from_peer(endpoint, peer, wire::Opcode::rc_write_only, 201, {}), Nanos(3'000));
  EXPECT_EQ(endpoint.engine().parked_frames(), 1u);
  qp.reset();
  EXPECT_EQ(endpoint.engine().parked_frames(), 0u);
  endpoint.run(Nanos(4'000'000));
  EXPECT_TRUE(endpoint.sink().take().empty());
}

}  // namespace
}  // namespace uroce::transport
