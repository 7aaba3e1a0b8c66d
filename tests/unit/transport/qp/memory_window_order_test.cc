#include "transport/qp/local_operation.h"

#include <gtest/gtest.h>

#include <array>

#include "tests/support/encode.h"
#include "tests/support/test_endpoint.h"

namespace uroce::transport {
namespace {

constexpr uint32_t kFirstPsn = 100;

// One queue pair, a region and a window, and a peer that acknowledges when the test says so.
class WindowOrder : public ::testing::Test {
 protected:
  WindowOrder() { peer_.gid = Gid::from_ipv4(0x0a000002); }
  void start(QpType type) {
    cq_ = &endpoint_.make_cq();
    qp_ = &endpoint_.make_qp({.qpn = 0x11, .type = type, .send_cq = cq_});
    qp_->connect({.dest_qpn = 0x22, .sq_psn = kFirstPsn}, test::make_route(endpoint_.options(), peer_));
    region_ = &endpoint_.make_region(1 << 16, AccessFlags(Access::local_write) | Access::mw_bind);
    window_ = endpoint_.regions().add_window(1, WindowType::type2).value();
  }
  void post_write(uint64_t wr_id, uint32_t bytes = 64) {
    const Sge sge = region_->sge(0, bytes);
    ASSERT_TRUE(qp_->post_send(
        {.wr_id = wr_id, .opcode = WrOpcode::rdma_write, .flags = SendFlag::signaled, .sges = {&sge, 1}, .rkey = 7}));
  }
  void post_bind(uint64_t wr_id, memory::Key region) {
    ASSERT_TRUE(qp_->post_send({.wr_id = wr_id,
                                .opcode = WrOpcode::bind_mw,
                                .flags = SendFlag::signaled,
                                .imm_or_key = window_,
                                .remote_addr = region_->va(),
                                .rkey = region,
                                .compare_add = 4096,
                                .swap = AccessFlags(Access::remote_write).bits()}));
  }
  void post_bind(uint64_t wr_id) { post_bind(wr_id, region_->key()); }
  void post_invalidate(uint64_t wr_id) {
    ASSERT_TRUE(qp_->post_send(
        {.wr_id = wr_id, .opcode = WrOpcode::local_invalidate, .flags = SendFlag::signaled, .imm_or_key = window_}));
  }
  // Polls until the engine rests. Returns how many frames left.
  std::size_t run() {
    endpoint_.run(now_);
    return endpoint_.sink().take().size();
  }
  void acknowledge(uint32_t psn) {
    wire::Packet ack;
    ack.bth.opcode = wire::Opcode::rc_ack;
    ack.bth.dest_qpn = qp_->qpn();
    ack.bth.psn = Psn(psn);
    ack.aeth.syndrome = wire::Aeth::ack(wire::Aeth::kNoCreditLimit);
    std::array<std::byte, 128> frame;
    const std::size_t bytes = test::encode(frame, ack, test::make_route(peer_, endpoint_.options()), {});
    endpoint_.inject(std::span(frame).first(bytes), now_ += Nanos(1000));
  }
  void expect_completion(uint64_t wr_id, WcStatus status = WcStatus::success) {
    const auto cqe = cq_->poll();
    ASSERT_TRUE(cqe) << wr_id;
    EXPECT_EQ(cqe->wr_id, wr_id);
    EXPECT_EQ(cqe->status, static_cast<uint8_t>(status)) << wr_id;
  }
  bool bound() { return endpoint_.regions().windows(region_->key()) != 0; }

  test::EndpointOptions peer_;
  test::TestEndpoint endpoint_;
  test::TestCq* cq_ = nullptr;
  test::TestQp* qp_ = nullptr;
  test::TestRegion* region_ = nullptr;
  memory::Key window_ = 0;
  Nanos now_{1000};
};

TEST_F(WindowOrder, ABindRunsWhileRequestsBeforeItAreOutstandingAndCompletesBehindThem) {
  start(QpType::rc);
  post_write(1);
  post_bind(2);
  post_write(3);
  EXPECT_EQ(run(), 2u) << "what follows the bind leaves as well";
  EXPECT_TRUE(bound());
  EXPECT_FALSE(cq_->poll());
  acknowledge(kFirstPsn + 1);
  run();
  for (const uint64_t wr_id : {1, 2, 3}) expect_completion(wr_id);
}

TEST_F(WindowOrder, ABindThatFailsIsNotCompletedAsASuccessByTheAckOfARequestBeforeIt) {
  start(QpType::rc);
  post_write(1);
  post_bind(2, region_->key() + 1);
  post_write(3);
  EXPECT_EQ(run(), 1u);
  EXPECT_FALSE(cq_->poll()) << "it fails in its turn";
  EXPECT_EQ(qp_->state(), QpState::rts);
  acknowledge(kFirstPsn);
  EXPECT_EQ(run(), 0u);
  expect_completion(1);
  expect_completion(2, WcStatus::mw_bind_error);
  expect_completion(3, WcStatus::flushed);
  EXPECT_EQ(qp_->state(), QpState::error);
  EXPECT_FALSE(bound());
}

TEST_F(WindowOrder, ABindThatFailsWithNothingBeforeItFailsAtOnce) {
  start(QpType::rc);
  post_bind(1, region_->key() + 1);
  run();
  expect_completion(1, WcStatus::mw_bind_error);
  EXPECT_EQ(qp_->state(), QpState::error);
}

TEST_F(WindowOrder, ALocalInvalidateWaitsForRequestsBeforeItAndHoldsUpThoseBehind) {
  start(QpType::rc);
  post_bind(1);
  run();
  expect_completion(1);
  post_write(2);
  post_invalidate(3);
  post_write(4);
  EXPECT_EQ(run(), 1u);
  EXPECT_TRUE(bound()) << "the WRITE may use what is invalidated";
  acknowledge(kFirstPsn);
  EXPECT_EQ(run(), 1u);
  EXPECT_FALSE(bound());
  expect_completion(2);
  expect_completion(3);
  EXPECT_FALSE(cq_->poll());
  acknowledge(kFirstPsn + 1);
  run();
  expect_completion(4);
}

TEST_F(WindowOrder, ALocalInvalidateOfABadKeyFailsInItsTurn) {
  start(QpType::rc);
  post_write(1);
  post_invalidate(2);  // the window is not bound
  run();
  EXPECT_FALSE(cq_->poll());
  acknowledge(kFirstPsn);
  run();
  expect_completion(1);
  expect_completion(2, WcStatus::local_qp_operation_error);
  EXPECT_EQ(qp_->state(), QpState::error);
}

// UC and UD have no ACKs: requests complete as the sink takes their frames.
TEST_F(WindowOrder, OnUcEveryLocalOperationWaitsUntilTheSinkHasTakenWhatComesBefore) {
  start(QpType::uc);
  post_write(1, 2000);  // two packets
  post_bind(2);
  endpoint_.sink().set_room(1);
  EXPECT_EQ(run(), 1u);
  EXPECT_FALSE(bound());
  endpoint_.sink().set_room(1);
  EXPECT_EQ(run(), 1u);
  expect_completion(1);
  endpoint_.sink().set_room(1);
  run();
  EXPECT_TRUE(bound());
  expect_completion(2);
  post_invalidate(3);
  run();
  EXPECT_FALSE(bound());
  expect_completion(3);
}

TEST_F(WindowOrder, OnUcABindThatFailsEndsTheSendQueueAlone) {
  start(QpType::uc);
  post_write(1);
  post_bind(2, region_->key() + 1);
  post_write(3);
  EXPECT_EQ(run(), 1u);
  expect_completion(1);
  expect_completion(2, WcStatus::mw_bind_error);
  expect_completion(3, WcStatus::flushed);
  EXPECT_EQ(qp_->state(), QpState::sqe);
}

}  // namespace
}  // namespace uroce::transport
