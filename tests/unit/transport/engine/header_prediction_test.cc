// Packets whose headers are as predicted: the queue pair that they go to may change, or go, meanwhile.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"

namespace uroce::transport {
namespace {

using test::TestEndpoint;
using test::TestQp;

class PredictedPackets : public ::testing::Test {
 protected:
  static constexpr uint32_t kQpn = 2, kPeerQpn = 9;
  static constexpr uint32_t kFirstPsn = 200;

  PredictedPackets() { add_qp(); }

  static test::EndpointOptions host(uint8_t number) {
    test::EndpointOptions options;
    options.gid = Gid::from_ipv4(0x0a000000u + number);
    return options;
  }
  void add_qp() {
    auto& cq = endpoint_.make_cq();
    qp_ = &endpoint_.make_qp({.qpn = kQpn, .send_cq = &cq, .recv_cq = &cq});
    connect();
  }
  void connect() {
    qp_->connect({.dest_qpn = kPeerQpn, .rq_psn = kFirstPsn}, test::make_route(endpoint_.options(), host(2)));
    psn_ = kFirstPsn;
  }
  std::vector<std::byte> write_frame() {
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::rc_write_only;
    packet.bth.dest_qpn = kQpn;
    packet.bth.psn = Psn(psn_++);
    packet.reth = {.va = target_.va(), .rkey = target_.key(), .length = 8};
    std::vector<std::byte> payload(8, std::byte{static_cast<uint8_t>(psn_)});
    std::vector<std::byte> frame(wire::kMaxHeaderBytes + payload.size() + 8);
    frame.resize(test::encode(frame, packet, test::make_route(host(2), endpoint_.options()), payload));
    return frame;
  }
  // Each WRITE has its bytes in memory.
  void write(int times) {
    for (; times > 0; --times) {
      endpoint_.inject(write_frame(), now_ += Nanos(1'000));
      EXPECT_EQ(target_.bytes()[0], std::byte{static_cast<uint8_t>(psn_)});
    }
  }
  uint64_t dropped(wire::Drop reason) {
    return endpoint_.engine().counters().drops[static_cast<std::size_t>(reason)].get();
  }

  Nanos now_{1'000};
  TestEndpoint endpoint_{host(1)};
  test::TestRegion& target_ = endpoint_.make_region(64, test::kAllAccess);
  TestQp* qp_ = nullptr;
  uint32_t psn_ = 0;
};

TEST_F(PredictedPackets, AreExecuted) {
  write(10);
  EXPECT_EQ(endpoint_.engine().traffic().sum().rx_packets, 10u);
}

TEST_F(PredictedPackets, MayBeWrong) {
  write(5);
  auto frame = write_frame();
  frame.back() ^= std::byte{1};
  endpoint_.inject(frame, now_);
  EXPECT_EQ(dropped(wire::Drop::icrc), 1u);
  --psn_;
  write(5);
  --psn_;
  target_.bytes()[0] = std::byte{0};
  endpoint_.inject(write_frame(), now_);
  EXPECT_EQ(target_.bytes()[0], std::byte{0}) << "a duplicate is not executed";
}

TEST_F(PredictedPackets, AQueuePairThatHasChangedIsAskedAgain) {
  write(5);
  qp_->set_state(QpState::error);
  endpoint_.inject(write_frame(), now_);
  EXPECT_EQ(dropped(wire::Drop::qp_state), 1u);
  qp_->set_state(QpState::reset);
  endpoint_.inject(write_frame(), now_);
  EXPECT_EQ(dropped(wire::Drop::qp_state), 2u);
  connect();
  write(5);
}

TEST_F(PredictedPackets, AQueuePairThatHasGoneGetsNone) {
  write(5);
  endpoint_.engine().detach(qp_->qp());
  endpoint_.inject(write_frame(), now_);
  EXPECT_EQ(dropped(wire::Drop::qp_unknown), 1u);
}

TEST_F(PredictedPackets, ARegionThatHasGoneIsNotWritten) {
  write(5);
  ASSERT_TRUE(endpoint_.regions().remove(target_.key()));
  endpoint_.inject(write_frame(), now_);
  EXPECT_NE(target_.bytes()[0], std::byte{static_cast<uint8_t>(psn_)});
  EXPECT_EQ(qp_->state(), QpState::error);
}

}  // namespace
}  // namespace uroce::transport
