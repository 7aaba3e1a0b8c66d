// Lone messages share headers over several turns: those of another queue pair, route or connection must not stay.
#include <gtest/gtest.h>

#include <cstring>
#include <expected>
#include <utility>

#include "tests/support/test_endpoint.h"
#include "wire/packet.h"

namespace uroce::transport {
namespace {

using test::kAllAccess;
using test::TestEndpoint;
using test::TestQp;

class SharedHeaders : public ::testing::Test {
 protected:
  SharedHeaders() {
    for (uint32_t i = 0; i < 2; ++i) {
      near_qps_[i] = &near_.make_qp({.qpn = 0x10 + i});
      far_qps_[i] = &far_.make_qp({.qpn = 0x20 + i});
      connect(i, i);
    }
  }
  void connect(uint32_t near, uint32_t far) {
    near_qps_[near]->connect({.dest_qpn = 0x20 + far}, near_.route_to(far_));
    far_qps_[far]->connect({.dest_qpn = 0x10 + near}, far_.route_to(near_));
  }
  static test::EndpointOptions far_options() {
    test::EndpointOptions options;
    options.gid = Gid::from_ipv4(0x0a000002);
    options.mac = {{2, 0, 0, 0, 0, 2}};
    return options;
  }
  struct Exchange {
    std::vector<std::byte> request, ack;
    wire::Packet sent, answered;
  };
  // A WRITE that is alone, and its ACK.
  Exchange write(uint32_t near) {
    const Sge sge = source_.sge(0, 8);
    EXPECT_TRUE(near_qps_[near]->post_send({.opcode = WrOpcode::rdma_write,
                                            .flags = SendFlag::signaled,
                                            .sges = {&sge, 1},
                                            .remote_addr = target_.va(),
                                            .rkey = target_.key()}));
    Exchange exchange{.request = cross(near_, far_), .ack = cross(far_, near_), .sent = {}, .answered = {}};
    EXPECT_EQ(wire::parse(exchange.request, wire::Icrc::check, exchange.sent), wire::Drop::none);
    EXPECT_EQ(wire::parse(exchange.ack, wire::Icrc::check, exchange.answered), wire::Drop::none);
    return exchange;
  }
  // Moves the one frame that `from` has to send.
  std::vector<std::byte> cross(TestEndpoint& from, TestEndpoint& to) {
    now_ += Nanos(1000);
    from.run(now_);
    const auto frames = from.sink().take();
    EXPECT_EQ(frames.size(), 1u);
    if (frames.empty()) return {};
    to.inject(frames[0].bytes, now_);
    return {frames[0].bytes.begin(), frames[0].bytes.end()};
  }
  static EthAddr destination(std::span<const std::byte> frame) {
    EthAddr mac{};
    std::memcpy(mac.bytes.data(), frame.data(), mac.bytes.size());
    return mac;
  }

  TestEndpoint near_;
  TestEndpoint far_{far_options()};
  test::TestRegion& source_ = near_.make_region(64, kAllAccess);
  test::TestRegion& target_ = far_.make_region(64, kAllAccess);
  TestQp* near_qps_[2] = {};
  TestQp* far_qps_[2] = {};
  Nanos now_{0};
};

TEST_F(SharedHeaders, EachMessageHasItsOwnPsn) {
  for (uint32_t i = 0; i < 5; ++i) {
    const Exchange exchange = write(0);
    EXPECT_EQ(exchange.sent.bth.psn, Psn(i));
    EXPECT_EQ(exchange.answered.bth.psn, Psn(i));
    EXPECT_EQ(exchange.answered.aeth.msn, i + 1);
    EXPECT_TRUE(exchange.sent.bth.ack_request);
  }
}

TEST_F(SharedHeaders, QueuePairsThatTakeTurnsHaveTheirOwn) {
  for (uint32_t i = 0; i < 8; ++i) {
    const uint32_t which = i / 3 % 2;
    const Exchange exchange = write(which);
    EXPECT_EQ(exchange.sent.bth.dest_qpn, 0x20 + which);
    EXPECT_EQ(exchange.answered.bth.dest_qpn, 0x10 + which);
  }
}

TEST_F(SharedHeaders, TheyFollowTheNextHop) {
  for (int i = 0; i < 3; ++i) write(0);
  const EthAddr gateway{{2, 0, 0, 0, 0, 9}};
  for (TestEndpoint* side : {&near_, &far_})
    side->engine().redirect([&](const Gid&) { return std::optional(gateway); });
  const Exchange exchange = write(0);
  EXPECT_EQ(destination(exchange.request), gateway);
  EXPECT_EQ(destination(exchange.ack), gateway);
}

TEST_F(SharedHeaders, TheyFollowTheConnection) {
  for (int i = 0; i < 3; ++i) write(0);
  for (TestQp* qp : {near_qps_[0], near_qps_[1], far_qps_[0], far_qps_[1]}) qp->set_state(QpState::reset);
  connect(0, 1);
  const Exchange exchange = write(0);
  EXPECT_EQ(exchange.sent.bth.dest_qpn, 0x21u);
  EXPECT_EQ(exchange.sent.bth.psn, Psn(0));
}

}  // namespace
}  // namespace uroce::transport
