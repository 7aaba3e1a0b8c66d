// The packets of each client, and that their sum is the engine's.
#include "transport/engine/traffic.h"

#include <gtest/gtest.h>

#include "tests/support/test_endpoint.h"
#include "tests/unit/transport/engine/now.h"

namespace uroce::transport {
namespace {

using test::TestEndpoint;
using test::TestQp;

class TrafficTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kPeers = 20;  ///< queue pair numbers of the peer begin here

  // UC, because nothing answers. The peer's have no receive: each message is dropped there, and counts all the same.
  TestQp& add_sender(uint32_t client, uint32_t dest_qpn) {
    return connected(left_, {.qpn = next_qpn_++, .type = QpType::uc, .client = client}, dest_qpn, right_);
  }
  void add_receiver(uint32_t client, uint32_t qpn) {
    connected(right_, {.qpn = qpn, .type = QpType::uc, .client = client}, 1000, left_);
  }
  static TestQp& connected(TestEndpoint& here, const TestQp::Options& options, uint32_t dest, TestEndpoint& peer) {
    TestQp& qp = here.make_qp(options);
    qp.connect({.dest_qpn = dest, .timeout = 0}, here.route_to(peer));
    return qp;
  }
  void post(TestQp& qp, uint32_t bytes, uint32_t count) {
    const Sge sge = memory_.sge(0, bytes);
    for (uint32_t i = 0; i < count; ++i) ASSERT_TRUE(qp.post_send({.opcode = WrOpcode::send, .sges = {&sge, 1}}));
  }
  std::vector<test::SentFrame> send() {
    for (int i = 0; i < 20; ++i) left_.engine().poll(left_.sink(), kNow);
    return left_.sink().take();
  }
  static Traffic of(TestEndpoint& endpoint, uint32_t client) {
    return endpoint.engine().traffic().of(endpoint.engine().owners().client_of(client));
  }
  void take_locally() {
    left_.sink().set_local([this](std::span<const TxFrame> frames) {
      right_.engine().on_local_frames(frames, kNow);
      return true;
    });
  }
  /// Two clients' messages to two clients, and one to a queue pair that does not exist.
  void exchange() {
    for (uint32_t i = 0; i < 3; ++i) {
      post(*to_a_, 100, 5);
      post(*to_b_, 1000, 3);
      post(*to_nobody_, 8, 1);
      send_and_deliver();
    }
  }
  void send_and_deliver() {
    std::vector<RxFrame> frames;
    const auto sent = send();
    for (const auto& frame : sent) frames.push_back({.bytes = frame.bytes});
    if (!frames.empty()) right_.inject(frames, kNow);
  }

  void expect_all_counted() {
    const auto packet = [](uint64_t payload) { return 14 + 20 + 8 + 12 + payload + 4; };
    const Traffic a{.rx_packets = 15, .rx_bytes = 15 * packet(100)}, b{.rx_packets = 9, .rx_bytes = 9 * packet(1000)};
    EXPECT_EQ(of(right_, a_), a);
    EXPECT_EQ(of(right_, b_), b);
    const Traffic one{.tx_packets = 18, .tx_bytes = 15 * packet(100) + 3 * packet(8)};
    const Traffic other{.tx_packets = 9, .tx_bytes = 9 * packet(1000)};
    EXPECT_EQ(of(left_, one_), one);
    EXPECT_EQ(of(left_, other_), other);
    EXPECT_EQ(left_.engine().traffic().sum().tx_bytes, one.tx_bytes + other.tx_bytes);
    EXPECT_EQ(right_.engine().traffic().sum().rx_bytes, one.tx_bytes + other.tx_bytes) << "with those for nobody";
    EXPECT_EQ(right_.engine().traffic().of(Owners::kOwnProcess).rx_packets, 3u);
  }

  TestEndpoint left_, right_{{.gid = Gid::from_ipv4(0x0a000002)}};
  test::TestRegion& memory_ = left_.make_region(1 << 16, test::kAllAccess);
  uint32_t next_qpn_ = 1 + kGsiQpn;
  const uint32_t one_ = left_.add_client({.user = 1000}), other_ = left_.add_client({.user = 1001});
  const uint32_t a_ = right_.add_client({.user = 1000}), b_ = right_.add_client({.user = 1000});
  TestQp* to_a_ = &add_sender(one_, kPeers);
  TestQp* to_b_ = &add_sender(other_, kPeers + 1);
  TestQp* to_nobody_ = &add_sender(one_, kPeers + 2);
};

TEST_F(TrafficTest, EachClientHasItsOwn) {
  add_receiver(a_, kPeers);
  add_receiver(b_, kPeers + 1);
  exchange();
  expect_all_counted();
}

TEST_F(TrafficTest, AlsoFromAnEngineOfTheSameThread) {
  add_receiver(a_, kPeers);
  add_receiver(b_, kPeers + 1);
  take_locally();
  exchange();
  expect_all_counted();
}

// A member of a group was given 4 bytes too few for each datagram with immediate data.
TEST_F(TrafficTest, DatagramsToAGroupCountWholeForEachMember) {
  const Gid group = Gid::from_ipv4(0xe0000107);
  TestQp& sender = left_.make_qp({.qpn = next_qpn_++, .type = QpType::ud, .client = one_});
  TestQp& member = right_.make_qp({.qpn = kPeers, .type = QpType::ud, .client = a_});
  for (TestQp* qp : {&sender, &member}) qp->connect({}, {});
  ASSERT_TRUE(right_.engine().groups().join(group, member.qpn()));
  wire::Route route = left_.route_to(right_);
  route.dgid = group;
  const uint32_t ah = left_.make_ah(route);
  const Sge sge = memory_.sge(0, 13);  // padded
  for (const WrOpcode opcode : {WrOpcode::send, WrOpcode::send_with_imm}) {
    ASSERT_TRUE(sender.post_send({.opcode = opcode,
                                  .sges = {&sge, 1},
                                  .ah = ah,
                                  .remote_qpn = kMulticastQpn,
                                  .remote_qkey = test::ConnectOptions{}.qkey}));
    send_and_deliver();
    EXPECT_EQ(of(right_, a_).rx_bytes, of(left_, one_).tx_bytes);
  }
  EXPECT_EQ(of(right_, a_).rx_packets, 2u);
}

TEST_F(TrafficTest, BrokenFramesAreNobodys) {
  add_receiver(a_, kPeers);
  add_receiver(b_, kPeers + 1);
  post(*to_a_, 100, 2);
  post(*to_b_, 100, 2);
  auto sent = send();
  ASSERT_EQ(sent.size(), 4u);
  sent[1].bytes.back() ^= std::byte{1};  // the ICRC
  std::vector<RxFrame> frames;
  for (const auto& frame : sent) frames.push_back({.bytes = frame.bytes});
  right_.inject(frames, kNow);
  EXPECT_EQ(right_.engine().traffic().of(Owners::kOwnProcess).rx_packets, 1u);
  EXPECT_EQ(of(right_, a_).rx_packets + of(right_, b_).rx_packets, 3u);
  EXPECT_EQ(right_.engine().traffic().sum().rx_bytes, left_.engine().traffic().sum().tx_bytes);
}

TEST(BurstShares, ABurstOfSeveralClients) {
  TrafficCounters traffic;
  BurstShares shares(traffic);
  shares.change<&ClientTraffic::sent>(3, 0, 0);
  shares.change<&ClientTraffic::sent>(4, 2, 200);
  shares.finish<&ClientTraffic::sent>(5, 900);
  shares.finish<&ClientTraffic::sent>(1, 50);  // the next burst is the same client's
  EXPECT_EQ(traffic.of(3), (Traffic{.tx_packets = 2, .tx_bytes = 200}));
  EXPECT_EQ(traffic.of(4), (Traffic{.tx_packets = 4, .tx_bytes = 750}));
  EXPECT_EQ(traffic.of(Owners::kOwnProcess), Traffic{});
}

TEST(TrafficCounters, APacketToAGroupCountsOnceInTheSum) {
  TrafficCounters traffic;
  traffic.add(2);
  traffic[Owners::kOwnProcess].received(1, 100);
  traffic[1].received_in_group(100);
  traffic[2].received_in_group(100);
  EXPECT_EQ(traffic.of(2), (Traffic{.rx_packets = 1, .rx_bytes = 100}));
  EXPECT_EQ(traffic.sum(), (Traffic{.rx_packets = 1, .rx_bytes = 100}));
}

}  // namespace
}  // namespace uroce::transport
