#include "transport/rc/responder.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "base/random.h"
#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"
#include "wire/recovery.h"

namespace uroce::transport {
namespace {

// The frame of `opcode` with PSN `psn` that the peer of queue pair `qpn` sends.
test::Frame from_peer(test::TestEndpoint& endpoint, const test::EndpointOptions& peer, wire::Opcode opcode,
                      uint32_t psn, std::span<const std::byte> payload, wire::Seal seal, uint32_t qpn = 2) {
  wire::Packet packet;
  packet.bth.opcode = opcode;
  packet.bth.dest_qpn = qpn;
  packet.bth.psn = Psn(psn);
  packet.bth.reserved6 = seal.upper;
  packet.bth.reserved7 = seal.lower;
  test::Frame frame(wire::kMaxHeaderBytes + payload.size() + 8);
  frame.resize(test::encode(frame, packet, test::make_route(peer, endpoint.options()), payload));
  return frame;
}

// The payload of a peer's answer to the one HELLO that the endpoint has sent, and the seal of the peer's frames.
void answer_hello(test::TestEndpoint& endpoint, std::array<std::byte, wire::Hello::kBytes>& answer, wire::Seal& seal) {
  const auto sent = endpoint.sink().take();
  ASSERT_EQ(sent.size(), 1u);
  const auto said = wire::parse(sent[0].bytes);
  ASSERT_TRUE(said);
  const auto hello = wire::Hello::load(said->payload);
  ASSERT_TRUE(hello);
  seal = wire::Seal::of(7, hello->epoch);
  wire::Hello{.epoch = 7, .peer_epoch = hello->epoch, .parking = 100, .answer = false}.store(answer.data());
}

TEST(ReorderedRequests, NothingIsKeptForAQueuePairThatIsDestroyed) {
  test::EndpointOptions options;
  options.engine.settings.retransmission = Retransmission::automatic;
  test::EndpointOptions peer;
  peer.gid = Gid::from_ipv4(0x0a000002);
  test::TestEndpoint endpoint(options);
  auto qp = std::make_unique<test::TestQp>(
      endpoint, test::TestQp::Options{.qpn = 2, .send_cq = &endpoint.make_cq(), .recv_cq = &endpoint.make_cq()});
  qp->connect({.dest_qpn = 3, .sq_psn = 100, .rq_psn = 200}, test::make_route(endpoint.options(), peer));
  endpoint.run(Nanos(1'000));
  std::array<std::byte, wire::Hello::kBytes> answer;
  wire::Seal seal;
  ASSERT_NO_FATAL_FAILURE(answer_hello(endpoint, answer, seal));
  endpoint.inject(from_peer(endpoint, peer, wire::Opcode::hello, 0, answer, {}), Nanos(2'000));
  endpoint.inject(from_peer(endpoint, peer, wire::Opcode::rc_write_only, 201, {}, seal), Nanos(3'000));
  EXPECT_EQ(endpoint.engine().parked_frames(), 1u);
  qp.reset();
  EXPECT_EQ(endpoint.engine().parked_frames(), 0u);
  endpoint.run(Nanos(4'000'000));
  EXPECT_TRUE(endpoint.sink().take().empty());
}

// An engine with queue pairs of several peers, each of which is a uroce peer.
class Peers : public ::testing::Test {
 protected:
  static constexpr uint32_t kParkingFrames = 9;
  static constexpr uint32_t kExpectedPsn = 200;

  static test::EndpointOptions options() {
    test::EndpointOptions options;
    options.engine.settings.retransmission = Retransmission::automatic;
    options.engine.settings.parking_frames = kParkingFrames;
    return options;
  }
  /// Queue pair `qpn`, connected to the peer 10.0.0.`host`, which proves itself.
  void connect(uint32_t qpn, uint8_t host) {
    test::EndpointOptions peer;
    peer.gid = Gid::from_ipv4(0x0a000000u + host);
    peers_[qpn] = peer;
    auto& qp = qps_.emplace_back(std::make_unique<test::TestQp>(
        endpoint_,
        test::TestQp::Options{.qpn = qpn, .send_cq = &endpoint_.make_cq(), .recv_cq = &endpoint_.make_cq()}));
    qp->connect({.dest_qpn = 3, .sq_psn = 100, .rq_psn = kExpectedPsn}, test::make_route(endpoint_.options(), peer));
    endpoint_.run(now_ += Nanos(1'000));
    std::array<std::byte, wire::Hello::kBytes> answer;
    ASSERT_NO_FATAL_FAILURE(answer_hello(endpoint_, answer, seals_[qpn]));
    inject(qpn, wire::Opcode::hello, 0, answer);
  }
  void inject(uint32_t qpn, wire::Opcode opcode, uint32_t psn, std::span<const std::byte> payload) {
    const test::Frame frame = from_peer(endpoint_, peers_.at(qpn), opcode, psn, payload, seals_.at(qpn), qpn);
    endpoint_.inject(frame, now_ += Nanos(100));
  }
  /// A request `ahead` of its turn. Returns whether it was kept.
  bool park(uint32_t qpn, uint32_t ahead) {
    const uint32_t before = endpoint_.engine().parked_frames();
    inject(qpn, wire::Opcode::rc_write_only, kExpectedPsn + ahead, {});
    return endpoint_.engine().parked_frames() > before;
  }

  Nanos now_{0};
  test::TestEndpoint endpoint_{options()};
  std::map<uint32_t, test::EndpointOptions> peers_;  // by queue pair
  std::map<uint32_t, wire::Seal> seals_;             // likewise
  std::vector<std::unique_ptr<test::TestQp>> qps_;
};

TEST_F(Peers, OneWithManyQueuePairsLeavesRoomForAnother) {
  for (uint32_t qpn = 2; qpn < 10; ++qpn) connect(qpn, 2);
  connect(10, 3);
  for (uint32_t qpn = 2; qpn < 10; ++qpn) {
    for (uint32_t ahead = 1; ahead < 10; ++ahead) park(qpn, ahead);
  }
  EXPECT_EQ(endpoint_.engine().parked_frames(), 6u);
  EXPECT_TRUE(park(10, 1)) << "the other peer's";
  EXPECT_FALSE(park(2, 9));
}

// A stranger on the network knows addresses and the queue pair, and no PSN: with a window of 255 this many frames hit
// it.
TEST_F(Peers, ASweepOverAllPsnsParksNothing) {
  connect(2, 2);
  Random random(11);
  constexpr uint32_t kStep = 255;
  for (uint32_t psn = kExpectedPsn + 1; psn < kExpectedPsn + Psn::kMask; psn += kStep) {
    const uint64_t drawn = random.next();
    seals_[2] = {static_cast<uint8_t>(drawn & 0x3f), static_cast<uint8_t>(drawn >> 6 & 0x78)};
    inject(2, wire::Opcode::rc_send_only, psn, {});
  }
  EXPECT_EQ(endpoint_.engine().parked_frames(), 0u);
  EXPECT_GE(endpoint_.engine().counters().drops[static_cast<std::size_t>(wire::Drop::seal)].get(), 1u);
}

}  // namespace
}  // namespace uroce::transport
