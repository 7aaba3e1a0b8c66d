// The UDP source port that a peer asks for in its HELLO.
#include "transport/rc/hello.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"
#include "wire/receive_spread.h"
#include "wire/recovery.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kPeerEpoch = 7;
constexpr test::ConnectOptions kConnection{.dest_qpn = 3};

class HelloPort : public ::testing::Test {
 protected:
  HelloPort() {
    peer_.gid = Gid::from_ipv4(0x0a000002);
    endpoint_.emplace(options());
  }
  static test::EndpointOptions options() {
    test::EndpointOptions options;
    options.engine.settings.retransmission = Retransmission::automatic;
    options.engine.index = 3;
    options.engine.index_bits = 2;
    return options;
  }

  void connect() {
    ASSERT_NO_FATAL_FAILURE(get_ready());
    qp_->to_rts(kConnection);
  }
  // The queue pair is in RTR, and has sent its HELLO.
  void get_ready() {
    cq_ = &endpoint_->make_cq();
    qp_ = &endpoint_->make_qp({.qpn = 7, .send_cq = cq_, .recv_cq = cq_});
    qp_->to_init(kConnection);
    qp_->to_rtr(kConnection, test::make_route(endpoint_->options(), peer_));
    endpoint_->run(Nanos(1'000));
    const auto sent = endpoint_->sink().take();
    ASSERT_EQ(sent.size(), 1u);
    said_ = sent[0].bytes;
    const auto packet = wire::parse(said_);
    ASSERT_TRUE(packet);
    hello_ = wire::Hello::load(packet->payload);
    ASSERT_TRUE(hello_);
    first_port_ = packet->udp_source;
  }
  void hear(const wire::Hello& hello) {
    std::array<std::byte, wire::Hello::kBytes> payload;
    hello.store(payload.data());
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::hello;
    packet.bth.dest_qpn = 7;
    test::Frame frame(wire::kMaxHeaderBytes + payload.size() + 8);
    frame.resize(test::encode(frame, packet, test::make_route(peer_, endpoint_->options()), payload));
    endpoint_->inject(frame, Nanos(2'000));
  }
  // The source port of what leaves next.
  uint16_t port_of_a_write() {
    endpoint_->sink().take();
    auto& region = endpoint_->make_region(8, test::kAllAccess);
    const Sge sge = region.sge(0, 8);
    EXPECT_TRUE(qp_->post_send({.opcode = WrOpcode::rdma_write, .sges = {&sge, 1}, .remote_addr = 0x1000, .rkey = 1}));
    endpoint_->run(Nanos(3'000));
    for (const test::SentFrame& frame : endpoint_->sink().take()) {
      const auto packet = wire::parse(frame.bytes);
      if (packet && packet->bth.opcode == wire::Opcode::rc_write_only) return packet->udp_source;
    }
    ADD_FAILURE() << "no WRITE has left";
    return 0;
  }

  test::EndpointOptions peer_;
  std::optional<test::TestEndpoint> endpoint_;
  test::TestCq* cq_ = nullptr;
  test::TestQp* qp_ = nullptr;
  test::Frame said_;
  std::optional<wire::Hello> hello_;
  uint16_t first_port_ = 0;
};

TEST_F(HelloPort, AskedForByAProvenPeerIsUsed) {
  ASSERT_NO_FATAL_FAILURE(connect());
  EXPECT_EQ(hello_->port, 0) << "this port spreads nothing";
  hear({.epoch = kPeerEpoch, .peer_epoch = hello_->epoch, .parking = 100, .port = 0xc123});
  EXPECT_EQ(port_of_a_write(), 0xc123);
}

TEST_F(HelloPort, AskedForBeforeRtsIsUsed) {
  ASSERT_NO_FATAL_FAILURE(get_ready());
  hear({.epoch = kPeerEpoch, .peer_epoch = hello_->epoch, .parking = 100, .port = 0xc123});
  qp_->to_rts(kConnection);
  EXPECT_EQ(port_of_a_write(), 0xc123);
}

TEST_F(HelloPort, OfNobodyIsIgnored) {
  ASSERT_NO_FATAL_FAILURE(connect());
  hear({.epoch = kPeerEpoch, .peer_epoch = 0, .parking = 100, .port = 0xc123});
  EXPECT_EQ(port_of_a_write(), first_port_) << "a stranger may have said that";
}

TEST_F(HelloPort, ThatIsMissingChangesNothing) {
  ASSERT_NO_FATAL_FAILURE(connect());
  hear({.epoch = kPeerEpoch, .peer_epoch = hello_->epoch, .parking = 100});
  EXPECT_EQ(port_of_a_write(), first_port_);
}

TEST_F(HelloPort, BelowTheRangeMakesTheHelloInvalid) {
  ASSERT_NO_FATAL_FAILURE(connect());
  hear({.epoch = kPeerEpoch, .peer_epoch = hello_->epoch, .parking = 100, .port = 0xbfff});
  EXPECT_EQ(endpoint_->engine().counters().drops[static_cast<std::size_t>(wire::Drop::hello_invalid)].get(), 1u);
  EXPECT_EQ(port_of_a_write(), first_port_);
}

TEST_F(HelloPort, DoesNotReplaceAProgramsFlowLabel) {
  ASSERT_NO_FATAL_FAILURE(connect());
  qp_->qp().cold->attr.av.flow_label = 5;
  hear({.epoch = kPeerEpoch, .peer_epoch = hello_->epoch, .parking = 100, .port = 0xc123});
  EXPECT_EQ(port_of_a_write(), first_port_);
}

TEST_F(HelloPort, LeadsToTheQueueOfTheEngine) {
  std::array<uint8_t, RxHash::kKeyBytes> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(37 * i + 11);
  const auto spread = wire::ReceiveSpread::make(key, {0, 1, 2, 3, 0, 1, 2, 3}, true, false);
  ASSERT_TRUE(spread);
  endpoint_->engine().know_spread(*spread);
  ASSERT_NO_FATAL_FAILURE(connect());
  EXPECT_GE(hello_->port, 0xc000);
  EXPECT_EQ(spread->queue_of(peer_.gid, endpoint_->options().gid, hello_->port), 3);
}

}  // namespace
}  // namespace uroce::transport
