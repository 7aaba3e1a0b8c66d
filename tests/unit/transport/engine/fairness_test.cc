// Two clients on one engine whose sink takes some frames a round: what each of them gets.
#include <gtest/gtest.h>

#include <array>
#include <map>

#include "base/bytes.h"
#include "tests/support/test_endpoint.h"
#include "tests/unit/transport/engine/now.h"

namespace uroce::transport {
namespace {

using test::TestEndpoint;
using test::TestQp;

constexpr std::size_t kFramesPerRound = 24;

/// Counts bytes by destination. Each round has room for some frames.
class CountingSink : public FrameSink {
 public:
  std::size_t room() override { return room_; }
  void send(std::span<const TxFrame> frames) override {
    room_ -= frames.size();
    for (const TxFrame& frame : frames) {
      constexpr std::size_t kDestination = 20 + 8 + 5;  // after IPv4 and UDP, in the BTH
      const uint32_t qpn = load_be32(frame.header.data() + frame.l3_offset + kDestination - 1) & 0xffffff;
      bytes_[qpn] += frame.header_length + frame.payload_length;
      ++frames_[qpn];
    }
  }
  void open() { room_ = kFramesPerRound; }
  uint64_t bytes(uint32_t qpn) const { return bytes_.contains(qpn) ? bytes_.at(qpn) : 0; }
  uint64_t all_bytes() const {
    uint64_t sum = 0;
    for (const auto& [qpn, bytes] : bytes_) sum += bytes;
    return sum;
  }
  uint64_t frames(uint32_t qpn) const { return frames_.contains(qpn) ? frames_.at(qpn) : 0; }
  void clear() { bytes_.clear(), frames_.clear(); }

 private:
  std::size_t room_ = 0;
  std::map<uint32_t, uint64_t> bytes_, frames_;
};

test::EndpointOptions many_qps() {
  test::EndpointOptions options;
  options.engine.max_qps = 2048;
  options.engine.long_windows = transport::EngineConfig{}.long_windows;
  return options;
}

class Fairness : public ::testing::Test {
 protected:
  static constexpr uint32_t kVictimPeer = 0xaaaa, kOtherPeer = 0xbbbb;

  // UC: no window closes, so a queue pair with posted requests always has something to send.
  TestQp& add_qp(uint32_t client, uint32_t dest_qpn, QpType type = QpType::uc, uint32_t depth = 64) {
    TestQp& qp =
        endpoint_.make_qp({.qpn = next_qpn_++,
                           .type = type,
                           .cap = {.max_send_wr = depth, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
                           .send_cq = &cq_,
                           .recv_cq = &cq_,
                           .client = client});
    qp.connect({.dest_qpn = dest_qpn, .timeout = 0}, endpoint_.route_to(peer_));
    return qp;
  }
  void post(TestQp& qp, uint32_t bytes, uint32_t count) {
    const Sge sge = memory_.sge(0, bytes);
    for (uint32_t i = 0; i < count; ++i) ASSERT_TRUE(qp.post_send({.opcode = WrOpcode::rdma_write, .sges = {&sge, 1}}));
  }
  void run(uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; ++i) {
      sink_.open();
      endpoint_.engine().poll(sink_, kNow);
    }
  }
  double victims_part() const {
    return static_cast<double>(sink_.bytes(kVictimPeer)) / static_cast<double>(sink_.all_bytes());
  }

  TestEndpoint endpoint_{many_qps()};
  TestEndpoint peer_{{.gid = Gid::from_ipv4(0x0a000002)}};
  test::TestCq& cq_ = endpoint_.make_cq(1 << 16);
  test::TestRegion& memory_ = endpoint_.make_region(1 << 20, test::kAllAccess);
  CountingSink sink_;
  uint32_t next_qpn_ = 1 + kGsiQpn;
};

// 45 to 55 % beside a thousand queue pairs of another client, or of another user.
TEST_F(Fairness, AClientWithOneQueuePairGetsHalf) {
  for (const uint32_t users : {1, 2}) {
    const uint32_t victim = endpoint_.add_client({.user = 1000});
    const uint32_t other = endpoint_.add_client({.user = 999 + users});
    sink_.clear();
    post(add_qp(victim, kVictimPeer), 1 << 20, 64);
    for (int i = 0; i < 1000; ++i) post(add_qp(other, kOtherPeer), 1 << 20, 1);
    run(400);
    EXPECT_GE(victims_part(), 0.45) << users << " users";
    EXPECT_LE(victims_part(), 0.55) << users << " users";
    for (std::size_t i = 0; i < endpoint_.qps(); ++i) endpoint_.qp(i).set_state(QpState::reset);
  }
}

TEST_F(Fairness, AUserWithManyClientsGetsNoMore) {
  const uint32_t victim = endpoint_.add_client({.user = 1000});
  post(add_qp(victim, kVictimPeer), 1 << 20, 64);
  for (int i = 0; i < 200; ++i) post(add_qp(endpoint_.add_client({.user = 1001}), kOtherPeer), 1 << 20, 2);
  run(4000);  // longer than each one's first turn, which costs more
  EXPECT_GE(victims_part(), 0.45);
  EXPECT_LE(victims_part(), 0.55);
}

TEST_F(Fairness, WeightsArePartsOfTheWhole) {
  const uint32_t victim = endpoint_.add_client({.user = 1000, .weight = 3});
  const uint32_t other = endpoint_.add_client({.user = 1001});
  post(add_qp(victim, kVictimPeer), 1 << 20, 64);
  for (int i = 0; i < 100; ++i) post(add_qp(other, kOtherPeer), 1 << 20, 8);
  run(1000);
  EXPECT_NEAR(victims_part(), 0.75, 0.03);
}

// A message of 8 bytes waits for one quantum of each other user, however many queue pairs these have.
TEST_F(Fairness, AMessageLeavesInTheNextBurst) {
  const uint32_t victim = endpoint_.add_client({.user = 1000});
  const uint32_t other = endpoint_.add_client({.user = 1001});
  TestQp& qp = add_qp(victim, kVictimPeer);
  for (int i = 0; i < 1000; ++i) post(add_qp(other, kOtherPeer), 1 << 20, 4);
  run(20);
  for (uint64_t sent = 1; sent <= 50; ++sent) {
    post(qp, 8, 1);
    run(1);
    ASSERT_EQ(sink_.frames(kVictimPeer), sent);
  }
}

// Doorbells of one user take at most their part of a poll.
TEST_F(Fairness, AThousandRungDoorbellsDoNotDelayOne) {
  const uint32_t victim = endpoint_.add_client({.user = 1000});
  const uint32_t other = endpoint_.add_client({.user = 1001});
  for (int i = 0; i < 1000; ++i) add_qp(other, kOtherPeer).ring();
  post(add_qp(victim, kVictimPeer), 8, 1);
  run(1);
  EXPECT_EQ(sink_.frames(kVictimPeer), 1u);
}

// --- Flushing ------------------------------------------------------------------------------------------------------

// One poll flushes a bounded number, whatever was posted.
TEST_F(Fairness, AFlushGoesOnInPieces) {
  constexpr uint32_t kPosted = 4096, kMostPerPoll = 64;
  const uint32_t client = endpoint_.add_client({.user = 1000});
  TestQp& qp = add_qp(client, kOtherPeer, QpType::uc, kPosted);
  qp.set_state(QpState::sqd);
  post(qp, 8, kPosted);
  qp.set_state(QpState::error);
  uint32_t flushed = 0;
  for (uint32_t polls = 0; flushed < kPosted; ++polls) {
    ASSERT_LT(polls, kPosted) << "the flush does not go on";
    ASSERT_TRUE(endpoint_.engine().has_work());
    endpoint_.engine().poll(sink_, kNow);  // without room in the sink
    uint32_t now = 0;
    while (const auto cqe = cq_.poll()) {
      EXPECT_EQ(cqe->status, static_cast<uint8_t>(WcStatus::flushed));
      ++now;
    }
    ASSERT_LE(now, kMostPerPoll);
    flushed += now;
  }
  endpoint_.run(kNow);
  EXPECT_FALSE(endpoint_.engine().has_work());
}

// The other client posts to queue pairs in error for ever. It pays with its own sends.
TEST_F(Fairness, WhoeverFlushesWithoutEndDelaysNobody) {
  const uint32_t victim = endpoint_.add_client({.user = 1000});
  const uint32_t other = endpoint_.add_client({.user = 1001});
  post(add_qp(victim, kVictimPeer), 1 << 20, 64);
  std::vector<TestQp*> bombs;
  for (int i = 0; i < 100; ++i) {
    bombs.push_back(&add_qp(other, kOtherPeer));
    bombs.back()->set_state(QpState::error);
  }
  post(add_qp(other, kOtherPeer), 1 << 20, 64);
  TestQp& broken = add_qp(victim, kVictimPeer);
  uint32_t flushed = 0;
  for (uint32_t round = 0; round < 500; ++round) {
    for (TestQp* bomb : bombs) {
      const Sge sge = memory_.sge(0, 8);
      while (bomb->has_send_room()) bomb->post_send({.wr_id = 1, .opcode = WrOpcode::rdma_write, .sges = {&sge, 1}});
    }
    if (round == 100) {
      broken.set_state(QpState::error);
      post(broken, 8, 32);
    }
    run(1);
    while (const auto cqe = cq_.poll()) flushed += cqe->qpn == broken.qpn() ? 1 : 0;
    if (round < 110) continue;
    ASSERT_EQ(flushed, 32u) << "the victim's own flush waited behind the others'";
  }
  EXPECT_GE(victims_part(), 0.5);
}

// --- Frames and doorbells that arrive --------------------------------------------------------------------------------

TEST_F(Fairness, ReadResponsesAreChargedToWhoServesThem) {
  const uint32_t victim = endpoint_.add_client({.user = 1000});
  const uint32_t other = endpoint_.add_client({.user = 1001});
  post(add_qp(victim, kVictimPeer), 1 << 20, 64);
  auto& target = peer_.make_region(1 << 20, test::kAllAccess);
  const Sge sge = target.sge(0, 1 << 20);
  for (uint32_t i = 0; i < 50; ++i) {
    TestQp& asker = peer_.make_qp({.qpn = 2 + i});
    TestQp& served = add_qp(other, asker.qpn(), QpType::rc);
    asker.connect({.dest_qpn = served.qpn(), .timeout = 0}, peer_.route_to(endpoint_));
    ASSERT_TRUE(asker.post_send(
        {.opcode = WrOpcode::rdma_read, .sges = {&sge, 1}, .remote_addr = memory_.va(), .rkey = memory_.key()}));
  }
  peer_.run(kNow);
  for (const test::SentFrame& frame : peer_.sink().take()) endpoint_.inject(frame.bytes, kNow);
  run(200);
  EXPECT_GE(victims_part(), 0.45);
  EXPECT_LE(victims_part(), 0.55);
}

}  // namespace
}  // namespace uroce::transport
