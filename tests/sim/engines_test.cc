// Two machines of 16 engines each, whose ports spread frames over their queues by the Toeplitz hash. The HELLO tells
// peers which UDP source ports bring frames to the engine that they are for; all others are handed over.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <vector>

#include "base/random.h"
#include "tests/support/test_endpoint.h"
#include "wire/receive_spread.h"

namespace uroce::test {
namespace {

constexpr uint32_t kIndexBits = 4;
constexpr uint32_t kEngines = 1u << kIndexBits;
constexpr uint32_t kConnections = 64;
constexpr std::size_t kTable = 128;
constexpr uint32_t kBytes = 20'000;  // several packets
constexpr Nanos kStep = std::chrono::microseconds(5);

wire::ReceiveSpread make_spread(uint64_t seed) {
  Random random(seed);
  std::array<uint8_t, RxHash::kKeyBytes> key;
  for (uint8_t& byte : key) byte = static_cast<uint8_t>(random.next() >> 8);
  std::vector<uint16_t> queues(kTable);
  for (std::size_t i = 0; i < kTable; ++i) queues[i] = static_cast<uint16_t>(i % kEngines);
  return wire::ReceiveSpread::make(key, std::move(queues), true, true).value();
}

/// Engines with one address and a port of as many queues.
class Machine {
 public:
  Machine(uint32_t number, uint64_t seed, bool tells_ports) : spread_(make_spread(seed)) {
    for (uint32_t i = 0; i < kEngines; ++i) {
      EndpointOptions options;
      options.engine.index = i;
      options.engine.index_bits = kIndexBits;
      options.engine.settings.retransmission = Retransmission::automatic;
      options.gid = Gid::from_ipv4(0x0a000000 + number);
      options.mac.bytes[5] = static_cast<uint8_t>(number);
      options.seed = seed + i;
      engines_.push_back(std::make_unique<TestEndpoint>(options));
      if (tells_ports) engines_.back()->engine().know_spread(spread_);
    }
  }

  TestEndpoint& engine(uint32_t i) { return *engines_[i]; }
  void run(Nanos now) {
    for (const auto& engine : engines_) engine->run(now);
  }
  /// Takes all frames that `peer` has sent.
  void receive_from(Machine& peer, Nanos now) {
    for (const auto& from : peer.engines_) {
      for (const SentFrame& frame : from->sink().take()) receive(frame.bytes, now);
    }
  }
  uint64_t received = 0;
  uint64_t handed_over = 0;

 private:
  void receive(const Frame& frame, Nanos now) {
    const auto packet = wire::parse(frame);
    ASSERT_TRUE(packet);
    const uint32_t owner = packet->bth.dest_qpn % kEngines;
    const TestEndpoint& any = engine(0);
    const auto queue = spread_.queue_of(peer_of(any), any.options().gid, packet->udp_source);
    ASSERT_TRUE(queue);
    ++received;
    handed_over += *queue != owner ? 1 : 0;
    engine(owner).inject(frame, now);
  }
  static Gid peer_of(const TestEndpoint& endpoint) { return Gid::from_ipv4(endpoint.options().gid.ipv4() ^ 3); }

  wire::ReceiveSpread spread_;
  std::vector<std::unique_ptr<TestEndpoint>> engines_;
};

/// Connections of random engines, with WRITEs in both directions.
class Connections {
 public:
  Connections(uint64_t seed, bool tells_ports) : a_(1, seed, tells_ports), b_(2, seed + 100, tells_ports) {
    Random random(seed);
    for (uint32_t i = 0; i < kConnections; ++i) {
      const uint32_t engine_a = static_cast<uint32_t>(random.below(kEngines));
      const uint32_t engine_b = static_cast<uint32_t>(random.below(kEngines));
      ends_.push_back(End(a_.engine(engine_a), (i + 1) << kIndexBits | engine_a));
      ends_.push_back(End(b_.engine(engine_b), (i + 1) << kIndexBits | engine_b));
      End& one = ends_[2 * i];
      End& two = ends_[2 * i + 1];
      one.connect(two);
      two.connect(one);
    }
  }

  /// Each end writes `rounds` times.
  void write(uint32_t rounds) {
    for (uint32_t round = 0; round < rounds; ++round) {
      for (std::size_t i = 0; i < ends_.size(); ++i) ends_[i].write_to(ends_[i ^ 1]);
      for (int step = 0; step < 20; ++step) {
        a_.run(now_);
        b_.run(now_);
        now_ += kStep;
        b_.receive_from(a_, now_);
        a_.receive_from(b_, now_);
      }
      for (End& end : ends_) ASSERT_TRUE(end.cq->poll()) << "round " << round;
    }
  }
  double handed_over() const {
    return static_cast<double>(a_.handed_over + b_.handed_over) / static_cast<double>(a_.received + b_.received);
  }

 private:
  struct End {
    End(TestEndpoint& engine, uint32_t qpn)
        : endpoint(&engine),
          cq(&engine.make_cq()),
          qp(&engine.make_qp({.qpn = qpn, .send_cq = cq, .recv_cq = cq})),
          region(&engine.make_region(kBytes, kAllAccess)) {}
    void connect(const End& peer) { qp->connect({.dest_qpn = peer.qp->qpn()}, endpoint->route_to(*peer.endpoint)); }
    void write_to(const End& peer) {
      const Sge sge = region->sge(0, kBytes);
      ASSERT_TRUE(qp->post_send({.opcode = WrOpcode::rdma_write,
                                 .flags = SendFlag::signaled,
                                 .sges = {&sge, 1},
                                 .remote_addr = peer.region->va(),
                                 .rkey = peer.region->key()}));
    }
    TestEndpoint* endpoint;
    TestCq* cq;
    TestQp* qp;
    TestRegion* region;
  };

  Machine a_;
  Machine b_;
  std::vector<End> ends_;
  Nanos now_{1'000'000};
};

TEST(Engines, PeersSendToTheEngineThatAFrameIsFor) {
  Connections connections(7, true);
  ASSERT_NO_FATAL_FAILURE(connections.write(50));
  RecordProperty("handed_over_per_cent", fmt::format("{:.2f}", connections.handed_over() * 100));
  fmt::print("handed over: {:.2f} %\n", connections.handed_over() * 100);
  EXPECT_LT(connections.handed_over(), 0.05);
}

TEST(Engines, AlmostAllFramesAreHandedOverWhereNobodyTellsPorts) {
  Connections connections(7, false);
  ASSERT_NO_FATAL_FAILURE(connections.write(5));
  EXPECT_GT(connections.handed_over(), 0.85) << "15 of 16";
}

}  // namespace
}  // namespace uroce::test
