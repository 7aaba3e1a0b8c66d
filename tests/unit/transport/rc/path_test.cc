// Leaving a path that is congested or dead: another UDP source port, when, and which.
#include "transport/rc/path.h"

#include <gtest/gtest.h>

#include <array>
#include <optional>
#include <set>

#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"
#include "wire/receive_spread.h"
#include "wire/recovery.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kPathPeerEpoch = 7, kPathQpn = 0x11, kPathPeerQpn = 0x22, kRounds = 3;
constexpr Nanos kInterval = std::chrono::microseconds(50);

class Path : public ::testing::Test {
 protected:
  void connect(Retransmission retransmission, uint32_t ports = 1) {
    test::EndpointOptions options;
    options.engine.settings.retransmission = retransmission;
    options.engine.settings.udp_source_ports = ports;
    options.engine.settings.congestion.algorithm = CongestionAlgorithm::dcqcn;
    options.engine.settings.congestion.plb_rounds = kRounds;
    options.engine.settings.congestion.dcqcn.min_rate_mbps = 50'000;
    endpoint_ = std::make_unique<test::TestEndpoint>(options);
    peer_.gid = Gid::from_ipv4(0x0a000002);
    region_ = &endpoint_->make_region(1 << 16, test::kAllAccess);
    qp_ = &endpoint_->make_qp({.qpn = kPathQpn});
    qp_->connect({.dest_qpn = kPathPeerQpn, .sq_psn = 0, .rq_psn = 100, .timeout = 14},
                 make_route(endpoint_->options(), peer_));
    endpoint_->run(now_);
    if (retransmission != Retransmission::go_back_n) meet();
    first_ = qp_->qp().udp_source;
  }
  // The peer proves that it is one of uroce.
  void meet(uint16_t port = 0) {
    const auto sent = take(wire::Opcode::hello);
    ASSERT_EQ(sent.size(), 1u);
    epoch_ = wire::Hello::load(sent[0].payload)->epoch;
    hear({.epoch = kPathPeerEpoch, .peer_epoch = epoch_, .parking = 100, .port = port});
    ASSERT_TRUE(qp_->qp().selective);
  }

  struct Sent {
    Psn psn;
    uint16_t port;
    std::vector<std::byte> payload;
  };
  std::vector<Sent> take(wire::Opcode opcode) {
    std::vector<Sent> taken;
    for (const test::SentFrame& frame : endpoint_->sink().take()) {
      const auto packet = wire::parse(frame.bytes);
      if (!packet || packet->bth.opcode != opcode) continue;
      taken.push_back({packet->bth.psn, packet->udp_source, {packet->payload.begin(), packet->payload.end()}});
    }
    return taken;
  }
  std::vector<Sent> write(uint32_t times = 1) {
    const Sge sge = region_->sge(0, 8);
    for (uint32_t i = 0; i < times; ++i)
      EXPECT_TRUE(qp_->post_send({.opcode = WrOpcode::rdma_write, .sges = {&sge, 1}, .remote_addr = 0, .rkey = 1}));
    now_ += std::chrono::microseconds(20);
    endpoint_->run(now_);
    return take(wire::Opcode::rc_write_only);
  }

  void inject(wire::Packet packet, std::span<const std::byte> payload = {}) {
    packet.bth.dest_qpn = kPathQpn;
    if (qp_->qp().selective) {
      const wire::Seal seal = wire::Seal::of(kPathPeerEpoch, epoch_);
      packet.bth.reserved6 = seal.upper;
      packet.bth.reserved7 |= seal.lower;
    }
    std::array<std::byte, 256> frame;
    const std::size_t bytes = test::encode(frame, packet, make_route(peer_, endpoint_->options()), payload);
    ASSERT_NE(bytes, 0u);
    endpoint_->inject(std::span(frame).first(bytes), now_);
    endpoint_->run(now_);
  }
  void hear(const wire::Hello& hello) {
    std::array<std::byte, wire::Hello::kBytes> payload;
    hello.store(payload.data());
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::hello;
    inject(packet, payload);
  }
  void acknowledge(Psn psn) {
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::rc_ack;
    packet.bth.psn = psn;
    packet.aeth.syndrome = wire::Aeth::ack(wire::Aeth::kNoCreditLimit);
    inject(packet);
  }
  void report(uint32_t times, Nanos after = kInterval) {
    for (uint32_t i = 0; i < times; ++i) {
      now_ += after;
      wire::Packet packet;
      packet.bth.opcode = wire::Opcode::cnp;
      packet.bth.becn = true;
      inject(packet);
    }
  }
  // A request to write nothing, at `psn`, which was sent `copy` times before.
  void request(Psn psn, uint8_t copy) {
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::rc_write_only;
    packet.bth.psn = psn;
    packet.bth.ack_request = true;
    packet.bth.reserved7 = copy;
    inject(packet);
  }
  uint16_t port() const { return qp_->qp().udp_source; }
  uint64_t changes() const {
    EXPECT_EQ(qp_->status().path_changes, endpoint_->engine().counters().path_changes.get());
    return qp_->status().path_changes;
  }

  std::unique_ptr<test::TestEndpoint> endpoint_;
  test::EndpointOptions peer_;
  test::TestRegion* region_ = nullptr;
  test::TestQp* qp_ = nullptr;
  uint32_t epoch_ = 0;
  uint16_t first_ = 0;
  Nanos now_ = std::chrono::milliseconds(1);
};

TEST_F(Path, IsLeftWhenIdleAfterRoundsOfCongestion) {
  connect(Retransmission::go_back_n);
  report(kRounds - 1);
  EXPECT_EQ(write().at(0).port, first_);
  acknowledge(Psn(0));
  EXPECT_EQ(changes(), 0u);
  report(1);
  EXPECT_NE(port(), first_);
  EXPECT_GE(port(), wire::kLeastSourcePort);
  EXPECT_EQ(write().at(0).port, port());
  EXPECT_EQ(changes(), 1u);
}

TEST_F(Path, IsKeptWhenACalmRoundComesBetween) {
  connect(Retransmission::go_back_n);
  for (int i = 0; i < 5; ++i) {
    report(kRounds - 1);
    now_ += 2 * kInterval;
  }
  EXPECT_EQ(changes(), 0u);
}

TEST_F(Path, TheRoundsOfANewOneAreCountedAnew) {
  connect(Retransmission::go_back_n);
  std::set<uint16_t> ports{port()};
  for (int i = 0; i < 20; ++i) {
    report(kRounds);
    ports.insert(port());
  }
  EXPECT_EQ(changes(), 20u);
  EXPECT_GT(ports.size(), 18u);
}

// A packet that overtakes others would make such a peer ask for all of them again.
TEST_F(Path, OfABusyQueuePairOfGoBackNIsLeftOnceNothingIsInFlight) {
  connect(Retransmission::go_back_n);
  ASSERT_EQ(write(2).size(), 2u);
  report(20 * kRounds);
  EXPECT_EQ(port(), first_);
  acknowledge(Psn(0));
  EXPECT_EQ(port(), first_);
  acknowledge(Psn(1));
  EXPECT_NE(port(), first_);
}

TEST_F(Path, OfAQueuePairThatHasAnsweredReadsOfGoBackNIsKept) {
  connect(Retransmission::go_back_n);
  wire::Packet packet;
  packet.bth.opcode = wire::Opcode::rc_read_request;
  packet.bth.psn = Psn(100);
  packet.reth = {.va = region_->va(), .rkey = region_->key(), .length = 8};
  inject(packet);
  ASSERT_EQ(take(wire::Opcode::rc_read_response_only).size(), 1u);
  report(20 * kRounds);
  EXPECT_EQ(changes(), 0u);
}

TEST_F(Path, OfABusyQueuePairIsLeftLaterWhereThePeerKeepsWhatOvertakes) {
  connect(Retransmission::automatic);
  ASSERT_EQ(write().size(), 1u);
  for (uint32_t round = 1; round < 3 * kRounds; ++round) {
    report(1);
    ASSERT_EQ(write().at(0).port, first_) << round;
    acknowledge(Psn(round - 1));
  }
  report(1);
  EXPECT_NE(port(), first_);
  EXPECT_EQ(changes(), 1u);
}

TEST_F(Path, AllPortsOfASprayedQueuePairChange) {
  connect(Retransmission::automatic, 4);
  const auto ports = [](const std::vector<Sent>& sent) {
    std::set<uint16_t> all;
    for (const Sent& one : sent) all.insert(one.port);
    return all;
  };
  const auto before = ports(write(8));
  acknowledge(Psn(7));
  report(kRounds);
  const auto after = ports(write(8));
  EXPECT_EQ(before.size(), 4u);
  EXPECT_EQ(after.size(), 4u);
  for (const uint16_t one : after) EXPECT_FALSE(before.contains(one)) << one;
}

TEST_F(Path, IsKeptWhereTheProgramChoseIt) {
  connect(Retransmission::go_back_n);
  qp_->qp().cold->attr.av.flow_label = 5;
  report(20 * kRounds);
  EXPECT_EQ(changes(), 0u);
}

TEST_F(Path, APeerThatWantsCertainPortsIsAsked) {
  connect(Retransmission::automatic);
  hear({.epoch = kPathPeerEpoch, .peer_epoch = epoch_, .parking = 100, .port = 0xc123});
  endpoint_->sink().take();
  report(kRounds);
  EXPECT_EQ(port(), 0xc123);
  const auto asked = take(wire::Opcode::hello);
  ASSERT_EQ(asked.size(), 1u);
  const auto hello = wire::Hello::load(asked[0].payload);
  EXPECT_TRUE(hello->answer);
  EXPECT_GE(hello->wish, wire::kLeastSourcePort);
  EXPECT_NE(hello->wish, 0xc123);
  EXPECT_EQ(changes(), 0u);
  hear({.epoch = kPathPeerEpoch, .peer_epoch = epoch_, .parking = 100, .port = 0xd456});
  EXPECT_EQ(port(), 0xd456);
  EXPECT_EQ(changes(), 1u);
}

TEST_F(Path, AWishIsAnsweredWithAPortNearItThatLeadsToTheEngine) {
  connect(Retransmission::automatic);
  std::array<uint8_t, RxHash::kKeyBytes> key{};
  for (std::size_t i = 0; i < key.size(); ++i) key[i] = static_cast<uint8_t>(37 * i + 11);
  const auto spread = wire::ReceiveSpread::make(key, {1, 0, 2, 3}, true, false);
  endpoint_->engine().know_spread(*spread);
  for (const uint16_t wish : {uint16_t{0xc800}, uint16_t{0xf00f}, uint16_t{0}}) {
    endpoint_->sink().take();
    hear({.epoch = kPathPeerEpoch, .peer_epoch = epoch_, .parking = 100, .answer = true, .wish = wish});
    const auto answer = take(wire::Opcode::hello);
    ASSERT_EQ(answer.size(), 1u);
    const auto hello = wire::Hello::load(answer[0].payload);
    EXPECT_EQ(spread->queue_of(peer_.gid, endpoint_->options().gid, hello->port), 0);
    EXPECT_EQ(hello->port & 0xfff0, (wish != 0 ? wish : first_) & 0xfff0);
    EXPECT_EQ(hello->wish, 0);
  }
}

TEST_F(Path, IsLeftWhenTheProbeGetsNoAnswerEither) {
  connect(Retransmission::automatic);
  ASSERT_EQ(write().size(), 1u);
  const auto next_again = [this] {
    std::vector<Sent> again;
    while (again.empty()) {
      now_ = std::max(now_ + Nanos(1), endpoint_->engine().next_deadline());
      endpoint_->run(now_);
      again = take(wire::Opcode::rc_write_only);
    }
    return again[0];
  };
  EXPECT_EQ(next_again().port, first_) << "the probe";
  EXPECT_NE(next_again().port, first_);
  EXPECT_EQ(changes(), 1u);
}

TEST_F(Path, OfAnswersIsLeftWhenThePeerAsksASecondTime) {
  connect(Retransmission::automatic);
  request(Psn(100), 0);
  request(Psn(100), 1);
  EXPECT_EQ(changes(), 0u) << "the first answer may have been late";
  request(Psn(100), 1);
  EXPECT_EQ(changes(), 1u);
  request(Psn(100), 2);
  EXPECT_EQ(changes(), 1u) << "it came on its heels";
  now_ += 2 * kInterval;
  request(Psn(100), 3);
  EXPECT_EQ(changes(), 2u);
}

TEST_F(Path, OfAnswersIsNotLeftForAStranger) {
  connect(Retransmission::automatic);
  request(Psn(100), 0);
  epoch_ ^= 1;  // a wrong seal
  for (uint8_t copy = 1; copy < 5; ++copy) request(Psn(100), copy);
  EXPECT_EQ(changes(), 0u);
}

}  // namespace
}  // namespace uroce::transport
