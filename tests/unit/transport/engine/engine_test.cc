// Two engines joined by hand: the whole path of each operation, and what a burst costs and coalesces.
#include "transport/engine/engine.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "tests/support/test_endpoint.h"
#include "wire/packet.h"

namespace uroce::transport {
namespace {

using test::ConnectOptions;
using test::EndpointOptions;
using test::kAllAccess;
using test::TestEndpoint;

class Pair : public ::testing::Test {
 protected:
  explicit Pair(const EndpointOptions& left = {}) : left_(left) {}
  void SetUp() override {
    left_qp_ = &left_.make_qp({.qpn = 0x11});
    right_qp_ = &right_.make_qp({.qpn = 0x22});
    source_ = &left_.make_region(1 << 20, kAllAccess);
    target_ = &right_.make_region(1 << 20, kAllAccess);
    connect({.sq_psn = 0xfffff0, .rq_psn = 7});
  }
  void connect(ConnectOptions options) {
    options.dest_qpn = 0x22;
    left_qp_->connect(options, left_.route_to(right_));
    options.dest_qpn = 0x11;
    std::swap(options.sq_psn, options.rq_psn);
    right_qp_->connect(options, right_.route_to(left_));
  }
  // Moves frames until both sides rest. Counts what crossed.
  void settle(Nanos step = Nanos(1000)) {
    for (int rounds = 0; rounds < 10'000; ++rounds) {
      now_ += step;
      left_.run(now_);
      right_.run(now_);
      auto rightward = left_.sink().take();
      auto leftward = right_.sink().take();
      if (rightward.empty() && leftward.empty()) return;
      requests_ += rightward.size();
      responses_ += leftward.size();
      std::vector<RxFrame> burst;
      for (const auto& frame : rightward) burst.push_back({frame.bytes});
      right_.engine().on_frames(burst, now_);
      burst.clear();
      for (const auto& frame : leftward) burst.push_back({frame.bytes});
      left_.engine().on_frames(burst, now_);
    }
    FAIL() << "no rest";
  }
  EndpointOptions right_options() {
    EndpointOptions options;
    options.gid = Gid::from_ipv4(0x0a000002);
    options.mac = {{2, 0, 0, 0, 0, 2}};
    return options;
  }

  TestEndpoint left_;
  TestEndpoint right_{right_options()};
  test::TestQp* left_qp_ = nullptr;
  test::TestQp* right_qp_ = nullptr;
  test::TestRegion* source_ = nullptr;
  test::TestRegion* target_ = nullptr;
  Nanos now_{0};
  std::size_t requests_ = 0;
  std::size_t responses_ = 0;
};

class PairWithoutLongWindows : public Pair {
 protected:
  PairWithoutLongWindows()
      : Pair(
            {.engine = {.max_qps = 64, .long_windows = 0, .settings = {.retransmission = Retransmission::go_back_n}}}) {
  }
};

TEST_F(PairWithoutLongWindows, AQueuePairSendsAFewPacketsAtATime) {
  for (int i = 0; i < 2; ++i) {
    const Sge sge = source_->sge(3, 300'001);
    SendRequest write{.opcode = WrOpcode::rdma_write, .flags = SendFlag::signaled, .sges = {&sge, 1}};
    write.remote_addr = target_->va() + 5;
    write.rkey = target_->key();
    ASSERT_TRUE(left_qp_->post_send(write));
    const uint64_t before = left_.engine().traffic().sum().tx_packets;
    left_.run(now_);
    EXPECT_EQ(left_.engine().traffic().sum().tx_packets - before, 16u);
    settle();
    EXPECT_TRUE(std::ranges::equal(source_->bytes().subspan(3, 300'001), target_->bytes().subspan(5, 300'001)));
    EXPECT_GT(left_.engine().counters().windows_refused.get(), 0u);
  }
}

TEST_F(Pair, AWriteOfManyPacketsArrivesWholeAndIsAnsweredByFewAcks) {
  const Sge sge = source_->sge(3, 300'001);
  ASSERT_TRUE(left_qp_->post_send({.wr_id = 1,
                                   .opcode = WrOpcode::rdma_write,
                                   .flags = SendFlag::signaled,
                                   .sges = {&sge, 1},
                                   .remote_addr = target_->va() + 5,
                                   .rkey = target_->key()}));
  settle();
  EXPECT_EQ(std::memcmp(target_->bytes().data() + 5, source_->bytes().data() + 3, 300'001), 0);
  EXPECT_EQ(requests_, (300'001 + 1023) / 1024u);
  EXPECT_LT(responses_, requests_ / 8);
  EXPECT_EQ(left_.engine().counters().send_completions.get(), 1u);
  EXPECT_EQ(left_.engine().counters().retransmitted_packets.get(), 0u);
}

TEST_F(Pair, ReadAndAtomicsBringTheirResultsHome) {
  const Sge sge = source_->sge(0, 70'000);
  ASSERT_TRUE(left_qp_->post_send({.wr_id = 1,
                                   .opcode = WrOpcode::rdma_read,
                                   .flags = SendFlag::signaled,
                                   .sges = {&sge, 1},
                                   .remote_addr = target_->va(),
                                   .rkey = target_->key()}));
  settle();
  EXPECT_EQ(std::memcmp(target_->bytes().data(), source_->bytes().data(), 70'000), 0);

  uint64_t before = 0;
  std::memcpy(&before, target_->bytes().data() + 64, 8);
  const Sge word = source_->sge(128, 8);
  ASSERT_TRUE(left_qp_->post_send({.wr_id = 2,
                                   .opcode = WrOpcode::fetch_add,
                                   .flags = SendFlag::signaled,
                                   .sges = {&word, 1},
                                   .remote_addr = target_->va() + 64,
                                   .rkey = target_->key(),
                                   .compare_add = 5}));
  ASSERT_TRUE(left_qp_->post_send({.wr_id = 3,
                                   .opcode = WrOpcode::compare_swap,
                                   .flags = SendFlag::signaled,
                                   .sges = {&word, 1},
                                   .remote_addr = target_->va() + 64,
                                   .rkey = target_->key(),
                                   .compare_add = before + 5,
                                   .swap = 42}));
  settle();
  uint64_t after = 0;
  uint64_t fetched = 0;
  std::memcpy(&after, target_->bytes().data() + 64, 8);
  std::memcpy(&fetched, source_->bytes().data() + 128, 8);
  EXPECT_EQ(after, 42u);
  EXPECT_EQ(fetched, before + 5);
  EXPECT_EQ(left_.engine().counters().send_completions.get(), 3u);
}

TEST_F(Pair, AMessageIsAcknowledgedThoughItsReceiverGoesAtOnce) {
  const Sge sge = source_->sge(0, 100);
  const Sge into = target_->sge(0, 100);
  ASSERT_TRUE(right_qp_->post_recv({.wr_id = 1, .sges = {&into, 1}}));
  ASSERT_TRUE(
      left_qp_->post_send({.wr_id = 1, .opcode = WrOpcode::send, .flags = SendFlag::signaled, .sges = {&sge, 1}}));
  left_.run(now_);
  const auto request = left_.sink().take();
  ASSERT_EQ(request.size(), 1u);
  const RxFrame frame{request[0].bytes};
  right_.engine().on_frames({&frame, 1}, now_);
  ASSERT_EQ(right_.engine().counters().recv_completions.get(), 1u);
  // The application sees the completion before the engine runs on, and destroys the queue pair.
  ASSERT_TRUE(
      right_.engine().submit(std::make_shared<Task>([this](Engine& engine) { engine.detach(right_qp_->qp()); })));
  settle();
  EXPECT_EQ(left_.engine().counters().send_completions.get(), 1u);
  EXPECT_EQ(left_.engine().counters().error_completions.get(), 0u);
}

// The program's thread posts and asks for something while the engine's is in the middle of a poll.
TEST_F(Pair, ATaskFindsWhatWasPostedBefore) {
  const Sge sge = source_->sge(0, 8);
  const auto post = [&] {
    ASSERT_TRUE(left_qp_->post_send(
        {.opcode = WrOpcode::rdma_write, .sges = {&sge, 1}, .remote_addr = target_->va(), .rkey = target_->key()}));
  };
  bool asked = false;
  uint32_t found = 0;
  left_.sink().set_local([&](std::span<const TxFrame>) {
    if (std::exchange(asked, true)) return false;
    post();
    EXPECT_TRUE(left_.engine().submit(
        std::make_shared<Task>([&](Engine&) { found = left_qp_->qp().tx.sq.next() - left_qp_->qp().tx.oldest; })));
    return false;
  });
  post();
  left_.engine().poll(left_.sink(), now_);
  ASSERT_TRUE(asked);
  left_.engine().poll(left_.sink(), now_);
  EXPECT_EQ(found, 2u);
}

// rdma_disconnect(3) right behind the last message: its peer may wait for nothing else.
TEST_F(Pair, ASendLeavesBeforeTheErrorStateThatItsProgramAsksForNext) {
  const Sge sge = source_->sge(0, 8), into = target_->sge(0, 8);
  ASSERT_TRUE(right_qp_->post_recv({.wr_id = 1, .sges = {&into, 1}}));
  bool asked = false;
  left_.sink().set_local([&](std::span<const TxFrame>) {
    if (std::exchange(asked, true)) return false;
    EXPECT_TRUE(left_qp_->post_send({.opcode = WrOpcode::send, .sges = {&sge, 1}}));
    EXPECT_TRUE(left_.engine().submit(std::make_shared<Task>([&](Engine& engine) {
      engine.modify(left_qp_->qp(), {.state = QpState::error}, QpAttrBit::state, nullptr, false);
    })));
    return false;
  });
  ASSERT_TRUE(left_qp_->post_send(
      {.opcode = WrOpcode::rdma_write, .sges = {&sge, 1}, .remote_addr = target_->va(), .rkey = target_->key()}));
  settle();
  ASSERT_TRUE(asked);
  EXPECT_EQ(left_qp_->qp().state, QpState::error);
  EXPECT_EQ(right_.engine().counters().recv_completions.get(), 1u);
}

TEST_F(Pair, AHelloIsNoResponseToWhatThePeerHasOutstanding) {
  EndpointOptions options;
  options.engine.settings.retransmission = Retransmission::automatic;
  TestEndpoint asking(options);
  const Psn peer_begins(7);
  asking.make_qp({.qpn = 0x11})
      .connect({.dest_qpn = 0x22, .sq_psn = 100, .rq_psn = peer_begins.value()}, asking.route_to(right_));
  asking.engine().poll(asking.sink(), now_);
  const auto frames = asking.sink().take();
  ASSERT_EQ(frames.size(), 1u);
  const auto packet = wire::parse(frames[0].bytes);
  ASSERT_TRUE(packet.has_value());
  ASSERT_EQ(packet->bth.opcode, wire::Opcode::hello);
  // Far behind, and not so far that it would be ahead of the next million requests.
  EXPECT_LT(distance(packet->bth.psn, peer_begins), -(1 << 20));
  EXPECT_GT(distance(packet->bth.psn, peer_begins), -(1 << 23) + (1 << 20));
}

TEST_F(Pair, BackPressureLosesNothing) {
  const Sge sge = source_->sge(0, 100'000);
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_TRUE(left_qp_->post_send({.wr_id = i,
                                     .opcode = WrOpcode::rdma_write,
                                     .flags = SendFlag::signaled,
                                     .sges = {&sge, 1},
                                     .remote_addr = target_->va() + i * 100'000,
                                     .rkey = target_->key()}));
  }
  left_.sink().set_room(0);
  left_.engine().poll(left_.sink(), now_);
  EXPECT_TRUE(left_.sink().take().empty());
  EXPECT_LE(left_.engine().next_deadline(), now_);
  for (int i = 0; i < 1000 && left_.engine().counters().send_completions.get() < 4; ++i) {
    left_.sink().set_room(3);
    left_.engine().poll(left_.sink(), now_ += Nanos(1000));
    for (const auto& frame : left_.sink().take()) right_.inject(frame.bytes, now_);
    right_.run(now_);
    for (const auto& frame : right_.sink().take()) left_.inject(frame.bytes, now_);
  }
  EXPECT_EQ(left_.engine().counters().send_completions.get(), 4u);
  EXPECT_EQ(left_.engine().counters().retransmitted_packets.get(), 0u);
}

// An application that loses its engine flushes what stands in the ring from the consumer's index on.
TEST_F(Pair, AReceiveStandsInTheRingUntilItsMessageIsWhole) {
  const Sge from = source_->sge(0, 5000), to = target_->sge(0, 5000);
  for (const uint64_t id : {1, 2}) ASSERT_TRUE(right_qp_->post_recv({.wr_id = id, .sges = {&to, 1}}));
  ASSERT_TRUE(left_qp_->post_send({.wr_id = 1, .opcode = WrOpcode::send, .sges = {&from, 1}}));
  left_.run(now_);
  const auto frames = left_.sink().take();
  ASSERT_GE(frames.size(), 2u);
  const auto& consumer = right_qp_->recv_ring().header->consumer;
  for (const auto& frame : frames) {
    EXPECT_EQ(consumer.load(), 0u);
    right_.inject(frame.bytes, now_);
  }
  EXPECT_EQ(consumer.load(), 1u);
  EXPECT_EQ(right_.engine().counters().recv_completions.get(), 1u);
}

TEST_F(Pair, ReceivesPostedToAQpInErrorAreFlushed) {
  right_qp_->set_state(QpState::error);
  right_.run(now_);
  const Sge sge = target_->sge(0, 64);
  ASSERT_TRUE(right_qp_->post_recv({.wr_id = 9, .sges = {&sge, 1}}));
  right_qp_->ring();  // As post_recv() does once the queue asks for doorbells.
  EXPECT_EQ(right_qp_->recv_ring().header->wants_doorbell.load(), 1u);
  right_.run(now_);
  EXPECT_EQ(right_.engine().counters().error_completions.get(), 1u);
}

TEST_F(Pair, AResponseThatWaitsGoesWithTheResourcesOfReads) {
  const Sge sge = source_->sge(0, 3000);
  ASSERT_TRUE(left_qp_->post_send({.wr_id = 1,
                                   .opcode = WrOpcode::rdma_read,
                                   .flags = SendFlag::signaled,
                                   .sges = {&sge, 1},
                                   .remote_addr = target_->va(),
                                   .rkey = target_->key()}));
  left_.run(now_);
  right_.sink().set_room(1);
  for (const auto& frame : left_.sink().take()) right_.inject(frame.bytes, now_);
  right_.engine().poll(right_.sink(), now_);
  ASSERT_EQ(right_.sink().take().size(), 1u) << "the rest of the response waits";
  right_qp_->set_state(QpState::sqd);
  QpAttr attr;
  attr.state = QpState::sqd;
  attr.max_dest_rd_atomic = 0;
  right_.engine().modify(right_qp_->qp(), attr, QpAttrMask(QpAttrBit::state) | QpAttrBit::max_dest_rd_atomic, nullptr,
                         false);
  right_.sink().set_room(SIZE_MAX);
  right_.run(now_);
  EXPECT_TRUE(right_.sink().take().empty());
  EXPECT_FALSE(right_qp_->qp().responses.has_jobs());
  EXPECT_EQ(right_qp_->state(), QpState::sqd);
}

TEST_F(Pair, QpsTowardsOnePeerShareItsRoute) {
  std::set<const void*> routes;
  for (uint32_t i = 0; i < 12; ++i) {
    auto& qp = left_.make_qp({.qpn = 0x30 + i});
    qp.connect({.dest_qpn = 0x22}, left_.route_to(right_));
    routes.insert(qp.qp().route);
  }
  routes.insert(left_qp_->qp().route);
  EXPECT_EQ(routes.size(), 1u);
}

}  // namespace
}  // namespace uroce::transport
