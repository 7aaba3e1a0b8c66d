// Memory windows and local invalidation through the API: b binds, a is the peer.
#include <cstring>

#include "endpoints.h"

namespace uroce {
namespace {

using test::must;
using test::next;
using test::Side;

struct WindowShape {
  QpType type;
  uint32_t engines;
};

class WindowTest : public testing::TestWithParam<WindowShape> {
 protected:
  WindowTest() {
    for (int i = 0; i < 2; ++i) world_.add({.engines = GetParam().engines});
    a_.emplace(world_.device(0));
    b_.emplace(world_.device(1));
    const QpInit init{.type = GetParam().type, .cap = {.max_send_wr = 16, .max_recv_wr = 16}};
    qa_.emplace(a_->make_qp(init));
    qb_.emplace(b_->make_qp(init));
    test::connect(*a_, *qa_, *b_, *qb_);
    region_.emplace(must(
        b_->pd.register_memory(b_->memory.data(), Side::kBytes, AccessFlags(Access::local_write) | Access::mw_bind)));
    for (std::size_t i = 0; i < Side::kBytes; ++i) a_->memory[i] = static_cast<std::byte>(i * 7 + 1);
  }
  SendRequest bind(uint32_t rkey, std::size_t offset, uint64_t length) const {
    return {.opcode = WrOpcode::bind_mw,
            .flags = SendFlag::signaled,
            .bind = {.rkey = rkey,
                     .lkey = region_->lkey(),
                     .addr = region_->sge(offset, 0).addr,
                     .length = length,
                     .access = AccessFlags(Access::remote_write) | Access::remote_read}};
  }
  static SendRequest invalidate(uint32_t key, WrOpcode opcode = WrOpcode::local_invalidate) {
    return {.opcode = opcode, .flags = SendFlag::signaled, .imm_or_key = key};
  }
  Completion run(Side& side, QueuePair& qp, const SendRequest& request) {
    EXPECT_EQ(qp.post_send(request), 0);
    return next(world_, side.cq);
  }
  WcStatus write(uint32_t rkey, std::size_t offset, uint32_t length) {
    return run(*a_, *qa_,
               {.opcode = WrOpcode::rdma_write,
                .flags = SendFlag::signaled,
                .sges = std::array{a_->mr.sge(0, length)},
                .remote_addr = region_->sge(offset, 0).addr,
                .rkey = rkey})
        .status;
  }
  bool arrived(std::size_t offset, std::size_t length) const {
    return std::memcmp(a_->memory.data(), b_->memory.data() + offset, length) == 0;
  }

  test::World world_;
  std::optional<Side> a_, b_;
  std::optional<QueuePair> qa_, qb_;
  std::optional<MemoryRegion> region_;
};

class ReliableWindowTest : public WindowTest {};
INSTANTIATE_TEST_SUITE_P(Rc, ReliableWindowTest,
                         testing::Values(WindowShape{QpType::rc, 1}, WindowShape{QpType::rc, 2}));
INSTANTIATE_TEST_SUITE_P(Types, WindowTest, testing::Values(WindowShape{QpType::rc, 1}, WindowShape{QpType::uc, 1}));

TEST_P(WindowTest, BindsAndInvalidatesInTheOrderOfPosting) {
  const MemoryWindow window = must(b_->pd.create_memory_window(WindowType::type2));
  const uint32_t first = MemoryWindow::next_rkey(window.rkey());
  const uint32_t second = MemoryWindow::next_rkey(first);
  const SendRequest all[] = {bind(first, 0, 64), invalidate(first), bind(second, 64, 64)};
  EXPECT_EQ(qb_->post_send(all), 3u);
  for (const WcOpcode opcode : {WcOpcode::bind_mw, WcOpcode::local_invalidate, WcOpcode::bind_mw}) {
    const Completion done = next(world_, b_->cq);
    EXPECT_EQ(done.status, WcStatus::success);
    EXPECT_EQ(done.opcode, opcode);
  }
  EXPECT_EQ(must(region_->windows()), 1u);
  EXPECT_EQ(write(second, 64, 64), WcStatus::success);
  EXPECT_TRUE(world_.run_until([&] { return arrived(64, 64); }));
}

TEST_P(WindowTest, UnsignaledBindsGiveTheirPlacesBack) {
  const MemoryWindow window = must(b_->pd.create_memory_window(WindowType::type1));
  uint32_t rkey = window.rkey();
  for (int round = 0; round < 20; ++round) {
    for (int i = 0; i < 15; ++i) {
      rkey = MemoryWindow::next_rkey(rkey);
      SendRequest request = bind(rkey, 0, 64);
      request.flags = {};
      ASSERT_EQ(qb_->post_send(request), 0);
    }
    rkey = MemoryWindow::next_rkey(rkey);
    EXPECT_EQ(run(*b_, *qb_, bind(rkey, 0, 64)).status, WcStatus::success);
  }
}

TEST_P(WindowTest, AFaultEndsTheQueueInItsTurn) {
  const MemoryWindow window = must(b_->pd.create_memory_window(WindowType::type2));
  const SendRequest all[] = {bind(window.rkey(), 0, 64), bind(window.rkey(), 0, 64), invalidate(window.rkey())};
  EXPECT_EQ(qb_->post_send(all), 3u);
  EXPECT_EQ(next(world_, b_->cq).status, WcStatus::success);
  EXPECT_EQ(next(world_, b_->cq).status, WcStatus::mw_bind_error);
  EXPECT_EQ(next(world_, b_->cq).status, WcStatus::flushed);
}

TEST_P(WindowTest, WhatCannotBeInvalidatedSaysSo) {
  EXPECT_EQ(run(*b_, *qb_, invalidate(region_->rkey())).status, WcStatus::local_qp_operation_error);
}

TEST_P(ReliableWindowTest, Type1OpensAndCloses) {
  const MemoryWindow window = must(b_->pd.create_memory_window(WindowType::type1));
  const uint32_t rkey = MemoryWindow::next_rkey(window.rkey());
  const Completion bound = run(*b_, *qb_, bind(rkey, 1024, 5000));
  EXPECT_EQ(bound.status, WcStatus::success);
  EXPECT_EQ(bound.opcode, WcOpcode::bind_mw);
  EXPECT_EQ(write(rkey, 1024, 5000), WcStatus::success);
  EXPECT_TRUE(arrived(1024, 5000));
  EXPECT_EQ(run(*b_, *qb_, {.opcode = WrOpcode::bind_mw, .flags = SendFlag::signaled, .bind = {.rkey = rkey}}).status,
            WcStatus::success);
  EXPECT_EQ(must(region_->windows()), 0u);
  EXPECT_EQ(write(rkey, 1024, 1), WcStatus::remote_access_error);
}

TEST_P(ReliableWindowTest, OutsideItsRangeThePeerFindsNothing) {
  const MemoryWindow window = must(b_->pd.create_memory_window(WindowType::type1));
  EXPECT_EQ(run(*b_, *qb_, bind(window.rkey(), 1024, 64)).status, WcStatus::success);
  EXPECT_EQ(write(window.rkey(), 1024, 65), WcStatus::remote_access_error);
  EXPECT_EQ(b_->memory[1024], std::byte{0});
}

TEST_P(ReliableWindowTest, APeersSendWithInvalidateEndsType2) {
  const MemoryWindow window = must(b_->pd.create_memory_window(WindowType::type2));
  EXPECT_EQ(run(*b_, *qb_, bind(window.rkey(), 0, 64)).status, WcStatus::success);
  ASSERT_EQ(qb_->post_recv({}), 0);
  EXPECT_EQ(run(*a_, *qa_, invalidate(window.rkey(), WrOpcode::send_with_invalidate)).status, WcStatus::success);
  EXPECT_EQ(next(world_, b_->cq).imm_or_key, window.rkey());
  EXPECT_EQ(run(*b_, *qb_, bind(window.rkey(), 64, 64)).status, WcStatus::success);
  EXPECT_EQ(write(window.rkey(), 0, 1), WcStatus::remote_access_error);
}

TEST_P(ReliableWindowTest, APeersSendWithInvalidateDoesNotEndType1) {
  const MemoryWindow window = must(b_->pd.create_memory_window(WindowType::type1));
  EXPECT_EQ(run(*b_, *qb_, bind(window.rkey(), 0, 64)).status, WcStatus::success);
  ASSERT_EQ(qb_->post_recv({}), 0);
  // 9.9.3, class J: the error shows at the responder.
  EXPECT_EQ(run(*a_, *qa_, invalidate(window.rkey(), WrOpcode::send_with_invalidate)).status, WcStatus::success);
  EXPECT_EQ(next(world_, b_->cq).status, WcStatus::remote_invalid_request);
  EXPECT_EQ(must(region_->windows()), 1u);
}

TEST_P(ReliableWindowTest, GoesWithItsObject) {
  std::optional<MemoryWindow> window(must(b_->pd.create_memory_window(WindowType::type1)));
  const uint32_t rkey = window->rkey();
  EXPECT_EQ(run(*b_, *qb_, bind(rkey, 0, 64)).status, WcStatus::success);
  window.reset();
  EXPECT_EQ(must(region_->windows()), 0u);
  EXPECT_EQ(write(rkey, 0, 1), WcStatus::remote_access_error);
}

TEST_P(ReliableWindowTest, LocalInvalidateWaitsForWhatWasPostedBefore) {
  const MemoryRegion sink = must(
      b_->pd.register_memory(b_->memory.data(), 40000, AccessFlags(Access::local_write) | Access::remote_invalidate));
  const auto sges = std::array{sink.sge(0, 40000)};
  const SendRequest all[] = {{.wr_id = 1,
                              .opcode = WrOpcode::rdma_read,
                              .flags = SendFlag::signaled,
                              .sges = sges,
                              .remote_addr = a_->mr.sge(0, 0).addr,
                              .rkey = a_->mr.rkey()},
                             invalidate(sink.lkey()),
                             {.wr_id = 3, .opcode = WrOpcode::rdma_write, .flags = SendFlag::signaled}};
  EXPECT_EQ(qb_->post_send(all), 3u);
  EXPECT_EQ(next(world_, b_->cq).status, WcStatus::success);
  EXPECT_TRUE(arrived(0, 40000));
  EXPECT_EQ(next(world_, b_->cq).opcode, WcOpcode::local_invalidate);
  EXPECT_EQ(next(world_, b_->cq).wr_id, 3u);
}

TEST_P(ReliableWindowTest, BindsBetweenOtherRequestsCompleteInTheirOrder) {
  const MemoryWindow window = must(b_->pd.create_memory_window(WindowType::type1));
  const auto sges = std::array{b_->mr.sge(0, 3000)};
  uint32_t rkey = window.rkey();
  std::vector<SendRequest> all;
  for (uint64_t id = 0; id < 12; ++id) {
    rkey = MemoryWindow::next_rkey(rkey);
    SendRequest request{.opcode = id % 4 == 0 ? WrOpcode::rdma_read : WrOpcode::rdma_write,
                        .flags = SendFlag::signaled,
                        .sges = sges,
                        .remote_addr = a_->mr.sge(0, 0).addr,
                        .rkey = a_->mr.rkey()};
    if (id % 3 != 0) request = bind(rkey, 0, 64);
    request.wr_id = id;
    all.push_back(request);
  }
  EXPECT_EQ(qb_->post_send(all), 12u);
  for (uint64_t id = 0; id < 12; ++id) {
    const Completion done = next(world_, b_->cq);
    EXPECT_EQ(done.status, WcStatus::success);
    EXPECT_EQ(done.wr_id, id);
  }
}

TEST(Windows, AreOfTwoTypes) {
  test::World world;
  world.add({.engines = 1});
  Side side(world.device(0));
  EXPECT_EQ(side.pd.create_memory_window(static_cast<WindowType>(3)).error().code, EINVAL);
  EXPECT_EQ(must(side.pd.create_memory_window(WindowType::type2)).type(), WindowType::type2);
}

}  // namespace
}  // namespace uroce
