// A queue pair that a report of congestion has slowed down: how even its packets leave, and that its waits end.
#include <gtest/gtest.h>

#include <map>

#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"

namespace uroce::transport {
namespace {

using test::EndpointOptions;
using test::kAllAccess;
using test::TestEndpoint;

constexpr uint32_t kPeerOffset = 0x1000;
constexpr Nanos kStart = std::chrono::milliseconds(1);

class Paced : public ::testing::Test {
 protected:
  // After one report of congestion the rate is half of `line_mbps`, and does not rise before a second has passed.
  void start(uint32_t line_mbps, uint32_t qps = 1) {
    EndpointOptions options;
    options.engine.window_packets = 1024;
    options.engine.settings.retransmission = Retransmission::go_back_n;
    options.engine.settings.congestion.algorithm = CongestionAlgorithm::dcqcn;
    options.engine.settings.congestion.dcqcn.line_rate_mbps = line_mbps;
    options.engine.settings.congestion.dcqcn.min_rate_mbps = 1;
    options.engine.settings.congestion.dcqcn.increase_timer_us = 1'000'000;
    options.engine.settings.congestion.dcqcn.byte_counter_kib = 1 << 20;
    endpoint_ = std::make_unique<TestEndpoint>(options);
    qps_.clear();
    peer_.gid = Gid::from_ipv4(0x0a000002);
    peer_.mac.bytes[5] = 2;
    region_ = &endpoint_->make_region(1 << 20, kAllAccess);
    for (uint32_t i = 0; i < qps; ++i) {
      qps_.push_back(&endpoint_->make_qp({.qpn = 0x11 + i}));
      connect(*qps_.back());
      report(*qps_.back());
      post(*qps_.back());
    }
  }

  void connect(test::TestQp& qp) {
    qp.connect({.dest_qpn = qp.qpn() + kPeerOffset, .mtu = Mtu::mtu4096, .timeout = 0},
               make_route(endpoint_->options(), peer_));
  }
  void post(test::TestQp& qp) {
    const Sge sge = region_->sge(0, 1 << 20);
    for (int n = 0; n < 20; ++n) {
      EXPECT_TRUE(qp.post_send({.opcode = WrOpcode::rdma_write, .sges = {&sge, 1}, .remote_addr = 0, .rkey = 7}));
    }
  }

  void report(test::TestQp& qp) {
    wire::Packet packet;
    packet.bth.opcode = wire::Opcode::cnp;
    packet.bth.dest_qpn = qp.qpn();
    packet.bth.becn = true;
    inject(packet);
  }

  // Bits that leave until `end`, the engine polled once in each `step`.
  uint64_t bits_until(Nanos end, Nanos step) {
    uint64_t bits = 0;
    for (; now_ < end; now_ += step) bits += poll();
    return bits;
  }
  uint64_t poll() {
    endpoint_->run(now_);
    uint64_t bits = 0;
    std::map<uint32_t, Psn> newest;  // by the QP that sent it
    for (const auto& frame : endpoint_->sink().take()) {
      bits += frame.bytes.size() * 8;
      const auto packet = wire::parse(frame.bytes);
      if (packet->op().flags.has(wire::Op::write)) newest[packet->bth.dest_qpn - kPeerOffset] = packet->bth.psn;
    }
    for (const auto& [qpn, psn] : newest) acknowledge(qpn, psn);
    return bits;
  }
  // The window is to limit nobody.
  void acknowledge(uint32_t qpn, Psn psn) {
    wire::Packet ack;
    ack.bth.opcode = wire::Opcode::rc_ack;
    ack.bth.dest_qpn = qpn;
    ack.bth.psn = psn;
    ack.aeth.syndrome = wire::Aeth::ack(wire::Aeth::kNoCreditLimit);
    inject(ack);
  }
  void inject(const wire::Packet& packet) {
    std::array<std::byte, 128> frame;
    const std::size_t bytes = test::encode(frame, packet, make_route(peer_, endpoint_->options()), {});
    endpoint_->inject(std::span(frame).first(bytes), now_);
  }

  std::unique_ptr<TestEndpoint> endpoint_;
  EndpointOptions peer_;
  test::TestRegion* region_ = nullptr;
  std::vector<test::TestQp*> qps_;
  Nanos now_ = kStart;
};

TEST_F(Paced, TheRateIsKeptHoweverOftenTheEngineIsPolled) {
  for (const int64_t step : {100, 512, 1000, 5000}) {
    now_ = kStart;
    start(20'000);
    const auto bits = static_cast<double>(bits_until(kStart + std::chrono::milliseconds(3), Nanos(step)));
    EXPECT_NEAR(bits / 3e-3, 10e9, 0.01 * 10e9) << step;
  }
}

TEST_F(Paced, SlowQueuePairsKeepTheirRateToo) {
  start(20, 40);  // 10 Mb/s each: a packet of 4 KiB in 3.3 ms
  const auto bits = static_cast<double>(bits_until(kStart + std::chrono::milliseconds(300), Nanos(2000)));
  EXPECT_NEAR(bits / 0.3, 40 * 10e6, 0.02 * 40 * 10e6);
}

TEST_F(Paced, WhoComesLateSendsWhatItMissedButNoMore) {
  start(20'000);
  bits_until(kStart + std::chrono::microseconds(100), Nanos(100));
  now_ += std::chrono::milliseconds(1);
  // 8.2 us at 10 Gb/s are 82 kbit: two packets, and the one whose turn it is.
  EXPECT_LE(poll(), 4 * 4200 * 8u);
  EXPECT_EQ(poll(), 0u);
}

TEST_F(Paced, TheEngineMaySleepUntilTheNextTurn) {
  start(200);  // 100 Mb/s: 333 us for a packet
  EXPECT_GT(poll(), 0u);
  EXPECT_EQ(poll(), 0u);
  EXPECT_FALSE(endpoint_->engine().has_work());
  // The wheel asks to be turned once on the way.
  int wakes = 0;
  do {
    now_ = endpoint_->engine().next_deadline();
    ++wakes;
  } while (poll() == 0);
  EXPECT_LE(wakes, 2);
  EXPECT_NEAR(static_cast<double>((now_ - kStart).count()), 333'000, 10'000);  // less what may be caught up
}

// A ten-thousandth of a packet in each round trip of 100 us: at that rate a packet would wait for a second.
TEST_F(Paced, NoWaitIsLongerThanATenthOfASecond) {
  EndpointOptions options;
  options.engine.settings.congestion.algorithm = CongestionAlgorithm::swift;
  options.engine.settings.congestion.swift.min_window = 1e-4;
  options.engine.settings.congestion.swift.reset_after_timeouts = 1;
  endpoint_ = std::make_unique<TestEndpoint>(options);
  peer_.gid = Gid::from_ipv4(0x0a000002);
  peer_.mac.bytes[5] = 2;
  region_ = &endpoint_->make_region(1 << 20, kAllAccess);
  test::TestQp& qp = endpoint_->make_qp({.qpn = 0x11});
  qp.connect({.dest_qpn = 0x22, .mtu = Mtu::mtu4096, .timeout = 5}, make_route(endpoint_->options(), peer_));
  const auto post = [&](uint32_t bytes) {
    const Sge sge = region_->sge(0, bytes);
    ASSERT_TRUE(qp.post_send({.opcode = WrOpcode::rdma_write, .sges = {&sge, 1}, .remote_addr = 0, .rkey = 7}));
  };
  const auto sent = [&] {
    endpoint_->run(now_);
    return endpoint_->sink().take().size();
  };
  post(64);
  EXPECT_EQ(sent(), 1u);
  now_ += std::chrono::microseconds(100);
  acknowledge(0x11, Psn(0));
  post(8192);
  EXPECT_EQ(sent(), 2u);
  now_ += std::chrono::microseconds(150);  // the ACK timeout is 131 us
  EXPECT_EQ(sent(), 1u);
  const Nanos before = now_;
  acknowledge(0x11, Psn(1));
  while (sent() == 0) now_ += std::chrono::microseconds(10);
  EXPECT_NEAR(static_cast<double>((now_ - before).count()), 100e6, 1e6);
}

TEST_F(Paced, NothingIsLeftOfAQueuePairThatGoes) {
  start(200);
  test::TestCq& cq = endpoint_->make_cq();
  auto going =
      std::make_unique<test::TestQp>(*endpoint_, test::TestQp::Options{.qpn = 0x31, .send_cq = &cq, .recv_cq = &cq});
  connect(*going);
  report(*going);
  post(*going);
  poll();
  const Counter& waits = endpoint_->engine().counters().paced_waits;
  EXPECT_EQ(waits.get(), 2u);
  going.reset();
  EXPECT_GT(bits_until(kStart + std::chrono::milliseconds(2), Nanos(4000)), 0u);
}

TEST_F(Paced, AnApplicationsLimitIsKeptWithoutCongestionControl) {
  EndpointOptions options;
  options.engine.window_packets = 1024;
  options.engine.settings.retransmission = Retransmission::go_back_n;
  options.engine.settings.congestion.algorithm = CongestionAlgorithm::none;
  endpoint_ = std::make_unique<TestEndpoint>(options);
  peer_.gid = Gid::from_ipv4(0x0a000002);
  peer_.mac.bytes[5] = 2;
  region_ = &endpoint_->make_region(1 << 20, kAllAccess);
  test::TestQp& qp = endpoint_->make_qp({.qpn = 0x11});
  connect(qp);
  const auto limit = [&](uint32_t kbps) {
    endpoint_->engine().modify(qp.qp(), {.rate_limit = kbps}, QpAttrBit::rate_limit, nullptr, false);
    EXPECT_EQ(endpoint_->engine().status(qp.qp()).rate_bps, uint64_t{kbps} * 1000);
  };
  limit(2'000'000);
  post(qp);
  const auto bits = static_cast<double>(bits_until(kStart + std::chrono::milliseconds(3), Nanos(1000)));
  EXPECT_NEAR(bits / 3e-3, 2e9, 0.02 * 2e9);
  limit(500'000);
  const auto slower = static_cast<double>(bits_until(now_ + std::chrono::milliseconds(3), Nanos(1000)));
  EXPECT_NEAR(slower / 3e-3, 0.5e9, 0.03 * 0.5e9);
  limit(0);
  EXPECT_GT(bits_until(now_ + std::chrono::milliseconds(1), Nanos(1000)), 100 * 4096 * 8u);
}

TEST_F(Paced, TheLowerOfLimitAndCongestionControlCounts) {
  start(2'000);  // 1 Gb/s
  const auto rate_with = [&](uint32_t kbps) {
    endpoint_->engine().modify(qps_[0]->qp(), {.rate_limit = kbps}, QpAttrBit::rate_limit, nullptr, false);
    bits_until(now_ + std::chrono::microseconds(200), Nanos(1000));
    return static_cast<double>(bits_until(now_ + std::chrono::milliseconds(5), Nanos(1000))) / 5e-3;
  };
  EXPECT_NEAR(rate_with(300'000), 0.3e9, 0.03 * 0.3e9);
  EXPECT_NEAR(rate_with(9'000'000), 1e9, 0.02 * 1e9);
}

TEST_F(Paced, StatusTellsTheRateAndTheReports) {
  start(20'000);
  const Qp& qp = qps_[0]->qp();
  const QpTransportStatus status = endpoint_->engine().status(qp);
  EXPECT_EQ(status.congestion, CongestionAlgorithm::dcqcn);
  EXPECT_EQ(status.rate_bps, 10'000'000'000u);
  EXPECT_EQ(status.cnps_received, 1u);
  EXPECT_EQ(status.cnps_sent, 0u);
  qps_[0]->set_state(QpState::error);
  qps_[0]->set_state(QpState::reset);
  EXPECT_EQ(endpoint_->engine().status(qp).congestion, CongestionAlgorithm::none);
}

// Between responses that come slowly the requester asks again, but a response that is about to be sent is not sent
// twice.
TEST(PacedReads, AreAnsweredOnce) {
  EndpointOptions options;
  options.engine.settings.congestion.algorithm = CongestionAlgorithm::dcqcn;
  options.engine.settings.retransmission = Retransmission::automatic;
  TestEndpoint left(options);
  options.gid = Gid::from_ipv4(0x0a000002);
  options.mac.bytes[5] = 2;
  options.engine.seed = 2;
  TestEndpoint right(options);
  test::TestCq& cq = left.make_cq();
  auto& from = left.make_qp({.qpn = 0x11, .send_cq = &cq});
  auto& to = right.make_qp({.qpn = 0x22});
  auto& target = left.make_region(1 << 20, kAllAccess);
  auto& source = right.make_region(1 << 20, kAllAccess);
  from.connect({.dest_qpn = 0x22, .mtu = Mtu::mtu4096}, left.route_to(right));
  to.connect({.dest_qpn = 0x11, .mtu = Mtu::mtu4096}, right.route_to(left));
  const auto post = [&] {
    const Sge sge = target.sge(0, 1 << 16);
    return from.post_send({.opcode = WrOpcode::rdma_read,
                           .flags = SendFlag::signaled,
                           .sges = {&sge, 1},
                           .remote_addr = source.va(),
                           .rkey = source.key()});
  };
  int done = 0;
  uint64_t responses = 0;
  Nanos next_report{0};
  std::vector<test::SentFrame> rightward;
  std::vector<test::SentFrame> leftward;
  for (Nanos now = kStart; now < kStart + std::chrono::milliseconds(40); now += Nanos(5000)) {
    // Uncongested at first, with round trips of 10 us; then at the least rate for 20 ms.
    const Nanos since = now - kStart;
    if (since > std::chrono::milliseconds(1) && since < std::chrono::milliseconds(21) && now >= next_report) {
      next_report = now + std::chrono::microseconds(50);
      wire::Packet report;
      report.bth.opcode = wire::Opcode::cnp;
      report.bth.dest_qpn = 0x22;
      report.bth.reserved6 = from.qp().seal.upper;
      report.bth.reserved7 = from.qp().seal.lower;
      std::array<std::byte, 128> frame;
      const std::size_t bytes = test::encode(frame, report, left.route_to(right), {});
      right.inject(std::span(frame).first(bytes), now);
    }
    while (post()) {
    }
    for (const auto& frame : std::exchange(leftward, {})) left.inject(frame.bytes, now);
    for (const auto& frame : std::exchange(rightward, {})) right.inject(frame.bytes, now);
    left.run(now);
    right.run(now);
    rightward = left.sink().take();
    leftward = right.sink().take();
    for (const auto& frame : leftward) {
      if (wire::parse(frame.bytes)->op().flags.has(wire::Op::read)) ++responses;
    }
    while (const auto cqe = cq.poll()) {
      ASSERT_EQ(cqe->status, 0);
      ++done;
    }
  }
  EXPECT_GT(done, 1600);
  // Those of the READs that are still out are among them.
  EXPECT_LT(responses, static_cast<uint64_t>(done) * 16 + 16 * 16);
}

}  // namespace
}  // namespace uroce::transport
