#include "transport/rc/reordered_requests.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

#include "tests/support/test_endpoint.h"
#include "wire/encode.h"
#include "wire/recovery.h"

namespace uroce::transport {
namespace {

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

TEST(ReorderedRequests, NothingIsKeptForAQueuePairThatIsDestroyed) {
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
