#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "endpoints.h"

namespace uroce {
namespace {

using namespace std::chrono_literals;
using test::must;
using test::next;
using test::Side;

/// Two devices, or one for loopback, with 1 or 2 engines.
struct Shape {
  bool loopback;
  uint32_t engines;
};

class QueuePairTest : public testing::TestWithParam<Shape> {
 protected:
  QueuePairTest() {
    world_.add({.engines = GetParam().engines});
    world_.add({.engines = GetParam().engines});
    a_.emplace(world_.device(0));
    b_.emplace(world_.device(GetParam().loopback ? 0 : 1));
    const QpInit init{.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_inline_data = 64}};
    qa_.emplace(a_->make_qp(init));
    qb_.emplace(b_->make_qp(init));
    for (std::size_t i = 0; i < Side::kBytes; ++i) {
      a_->memory[i] = static_cast<std::byte>(i * 7);
      b_->memory[i] = static_cast<std::byte>(i * 13 + 5);
    }
  }
  void connect() { test::connect(*a_, *qa_, *b_, *qb_); }
  uint64_t remote(uint64_t offset) const { return b_->mr.sge(offset, 0).addr; }
  Completion run(const SendRequest& request) {
    EXPECT_EQ(qa_->post_send(request), 0);
    return next(world_, a_->cq);
  }

  test::World world_;
  std::optional<Side> a_, b_;
  std::optional<QueuePair> qa_, qb_;
};

TEST_P(QueuePairTest, WriteReadAndAtomics) {
  connect();
  constexpr uint32_t kLength = 10000;
  auto done = run({.wr_id = 1,
                   .opcode = WrOpcode::rdma_write,
                   .flags = SendFlag::signaled,
                   .sges = std::array{a_->mr.sge(100, kLength)},
                   .remote_addr = remote(7),
                   .rkey = b_->mr.rkey()});
  EXPECT_EQ(done.status, WcStatus::success);
  EXPECT_EQ(done.opcode, WcOpcode::rdma_write);
  EXPECT_EQ(done.wr_id, 1u);
  EXPECT_EQ(done.qpn, qa_->qpn());
  EXPECT_EQ(std::memcmp(a_->memory.data() + 100, b_->memory.data() + 7, kLength), 0);

  done = run({.opcode = WrOpcode::rdma_read,
              .flags = SendFlag::signaled,
              .sges = std::array{a_->mr.sge(20000, kLength), a_->mr.sge(40000, kLength)},
              .remote_addr = remote(30000),
              .rkey = b_->mr.rkey()});
  EXPECT_EQ(done.status, WcStatus::success);
  EXPECT_EQ(std::memcmp(a_->memory.data() + 20000, b_->memory.data() + 30000, kLength), 0);
  EXPECT_EQ(std::memcmp(a_->memory.data() + 40000, b_->memory.data() + 30000 + kLength, kLength), 0);

  uint64_t value = 40;
  std::memcpy(b_->memory.data() + 64, &value, sizeof value);
  const std::array result{a_->mr.sge(0, 8)};
  SendRequest atomic{.opcode = WrOpcode::fetch_add,
                     .flags = SendFlag::signaled,
                     .sges = result,
                     .remote_addr = remote(64),
                     .rkey = b_->mr.rkey(),
                     .compare_add = 2};
  EXPECT_EQ(run(atomic).status, WcStatus::success);
  std::memcpy(&value, a_->memory.data(), sizeof value);
  EXPECT_EQ(value, 40u);
  atomic.opcode = WrOpcode::compare_swap;
  atomic.compare_add = 42;
  atomic.swap = 1234;
  EXPECT_EQ(run(atomic).status, WcStatus::success);
  std::memcpy(&value, a_->memory.data(), sizeof value);
  EXPECT_EQ(value, 42u);
  std::memcpy(&value, b_->memory.data() + 64, sizeof value);
  EXPECT_EQ(value, 1234u);
}

TEST_P(QueuePairTest, AtomicWriteAndFlushWithoutBuffers) {
  connect();
  const SendRequest write{.opcode = WrOpcode::atomic_write,
                          .flags = SendFlag::signaled,
                          .remote_addr = remote(64),
                          .rkey = b_->mr.rkey(),
                          .swap = 0x1122334455667788};
  const auto written = run(write);
  EXPECT_EQ(written.status, WcStatus::success);
  EXPECT_EQ(written.opcode, WcOpcode::atomic_write);
  uint64_t value = 0;
  std::memcpy(&value, b_->memory.data() + 64, sizeof value);
  EXPECT_EQ(value, write.swap);

  SendRequest flush{.opcode = WrOpcode::flush,
                    .flags = SendFlag::signaled,
                    .remote_addr = remote(64),
                    .rkey = b_->mr.rkey(),
                    .flush = {.length = 8}};
  EXPECT_EQ(run(flush).opcode, WcOpcode::flush);
  flush.flush = {.scope = FlushScope::region};
  EXPECT_EQ(run(flush).status, WcStatus::success);
  flush.flush = {.length = 8, .placement = Placement::persistent};
  EXPECT_EQ(run(flush).status, WcStatus::remote_invalid_request) << "the queue pair does not offer it";
}

TEST_P(QueuePairTest, SendsInlineWithImmediateAndWithInvalidate) {
  connect();
  for (uint64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(qb_->post_recv({.wr_id = 10 + i, .sges = std::array{b_->mr.sge(1000 * i, 1000)}}), 0);
  }
  const std::string text = "inline text";
  run({.opcode = WrOpcode::send_with_imm,
       .flags = SendFlag::signaled | SendFlag::inline_data,
       .inline_data = std::as_bytes(std::span(text)),
       .imm_or_key = 0x01020304});
  auto received = next(world_, b_->cq);
  EXPECT_EQ(received.status, WcStatus::success);
  EXPECT_EQ(received.opcode, WcOpcode::recv);
  EXPECT_EQ(received.wr_id, 10u);
  EXPECT_EQ(received.byte_len, text.size());
  EXPECT_TRUE(received.flags.has(WcFlag::with_imm));
  EXPECT_EQ(received.imm_or_key, 0x01020304u);
  EXPECT_EQ(std::memcmp(b_->memory.data(), text.data(), text.size()), 0);

  run({.opcode = WrOpcode::rdma_write_with_imm,
       .flags = SendFlag::signaled,
       .sges = std::array{a_->mr.sge(0, 500)},
       .imm_or_key = 9,
       .remote_addr = remote(5000),
       .rkey = b_->mr.rkey()});
  received = next(world_, b_->cq);
  EXPECT_EQ(received.opcode, WcOpcode::recv_rdma_with_imm);
  EXPECT_EQ(received.byte_len, 500u);

  const auto window = must(b_->pd.register_memory(b_->memory.data(), 64, Side::kAll));
  run({.opcode = WrOpcode::send_with_invalidate,
       .flags = SendFlag::signaled,
       .sges = std::array{a_->mr.sge(0, 1)},
       .imm_or_key = window.rkey()});
  received = next(world_, b_->cq);
  EXPECT_TRUE(received.flags.has(WcFlag::with_invalidate));
  EXPECT_EQ(received.imm_or_key, window.rkey());
}

TEST_P(QueuePairTest, ManyPostsRingOnceAndStopWhereTheQueueIsFull) {
  connect();
  std::vector<std::array<Sge, 1>> sges;
  for (uint32_t i = 0; i < 20; ++i) sges.push_back({a_->mr.sge(i * 8, 8)});
  std::vector<SendRequest> requests;
  for (uint32_t i = 0; i < 20; ++i) {
    requests.push_back({.wr_id = i,
                        .opcode = WrOpcode::rdma_write,
                        .flags = SendFlag::signaled,
                        .sges = sges[i],
                        .remote_addr = remote(i * 8),
                        .rkey = b_->mr.rkey()});
  }
  int error = -1;
  EXPECT_EQ(qa_->post_send(requests, &error), 16u);
  EXPECT_EQ(error, ENOMEM);
  for (uint32_t i = 0; i < 16; ++i) EXPECT_EQ(next(world_, a_->cq).wr_id, i);
  EXPECT_EQ(qa_->post_send(std::span(requests).subspan(16), &error), 4u);
  EXPECT_EQ(error, 0);
  for (uint32_t i = 16; i < 20; ++i) EXPECT_EQ(next(world_, a_->cq).wr_id, i);
  EXPECT_EQ(std::memcmp(a_->memory.data(), b_->memory.data(), 160), 0);
  requests[1].opcode = WrOpcode::bind_mw;
  EXPECT_EQ(qa_->post_send(std::span(requests).first(3), &error), 1u);
  EXPECT_EQ(error, EINVAL);
  EXPECT_EQ(next(world_, a_->cq).wr_id, 0u);
}

TEST_P(QueuePairTest, PostsFollowTheState) {
  const SendRequest request{.flags = SendFlag::signaled};
  int error = 0;
  EXPECT_EQ(qa_->post_send(request), EINVAL);
  EXPECT_EQ(qa_->post_send({&request, 1}, &error), 0u);
  EXPECT_EQ(error, EINVAL);
  EXPECT_EQ(qa_->post_recv({}), EINVAL);
  must(qa_->modify({.state = QpState::init, .access = Side::kAll},
                   QpAttrBit::state | QpAttrBit::pkey_index | QpAttrBit::port | QpAttrBit::access_flags));
  EXPECT_EQ(qa_->post_send(request), EINVAL);
  EXPECT_EQ(qa_->post_recv({}), 0);
  must(qa_->modify({.state = QpState::reset}, QpAttrBit::state));
  connect();
  ASSERT_EQ(qb_->post_recv({}), 0);
  EXPECT_EQ(run(request).status, WcStatus::success);
}

TEST_P(QueuePairTest, StepsGoTogetherUpToTheFirstThatFails) {
  using enum QpAttrBit;
  const QueuePair::Step init{{.state = QpState::init, .access = Access::remote_write},
                             QpAttrMask(state) | pkey_index | port | access_flags};
  qa_ = must(a_->context.create_qp(a_->pd, a_->cq, a_->cq, {}, nullptr, std::array{init}));
  const Sge sge = a_->mr.sge(0, 8);
  EXPECT_EQ(qa_->post_recv({.sges = {&sge, 1}}), 0) << "as in INIT";
  EXPECT_EQ(must(qa_->query()).state, QpState::init);
  EXPECT_EQ(must(qa_->query()).access, AccessFlags(Access::remote_write));

  const QueuePair::Step rtr{{.state = QpState::rtr,
                             .path_mtu = Mtu::mtu1024,
                             .dest_qpn = qb_->qpn(),
                             .av = {.dgid = b_->context.info().gids[0]},
                             .max_dest_rd_atomic = 1,
                             .min_rnr_timer = 12},
                            QpAttrMask(state) | av | path_mtu | dest_qpn | rq_psn | max_dest_rd_atomic | min_rnr_timer};
  QueuePair::Step rts{{.state = QpState::rts}, QpAttrMask(state) | sq_psn};
  const auto half = qa_->modify(std::array{rtr, rts});
  ASSERT_FALSE(half) << "RTS lacks what RC needs";
  EXPECT_EQ(half.error().code, EINVAL);
  EXPECT_EQ(must(qa_->query()).state, QpState::rtr);
  EXPECT_EQ(qa_->post_send({.sges = {&sge, 1}}), EINVAL);
  rts.mask |= QpAttrMask(timeout) | retry_cnt | rnr_retry | max_rd_atomic;
  must(qa_->modify(std::array{rts}));
  EXPECT_EQ(must(qa_->query()).state, QpState::rts);
  EXPECT_EQ(a_->context.create_qp(a_->pd, a_->cq, a_->cq, {}, nullptr, std::array{init, rts}).error().code, EINVAL);
}

TEST_P(QueuePairTest, AnErrorFlushesWhatWasPostedAndWhatIsPostedAfter) {
  connect();
  for (uint64_t i = 0; i < 3; ++i) ASSERT_EQ(qa_->post_recv({.wr_id = 100 + i}), 0);
  must(qa_->modify({.state = QpState::error}, QpAttrBit::state));
  ASSERT_EQ(qa_->post_send({.wr_id = 1}), 0);  // unsignaled: reported all the same
  ASSERT_EQ(qa_->post_recv({.wr_id = 103}), 0);
  std::vector<uint64_t> ids;
  for (int i = 0; i < 5; ++i) {
    const auto completion = next(world_, a_->cq);
    EXPECT_EQ(completion.status, WcStatus::flushed);
    ids.push_back(completion.wr_id);
  }
  std::ranges::sort(ids);
  EXPECT_EQ(ids, (std::vector<uint64_t>{1, 100, 101, 102, 103}));
}

TEST_P(QueuePairTest, ComesBackFromErrorThroughReset) {
  for (int round = 0; round < 3; ++round) {
    connect();
    ASSERT_EQ(qb_->post_recv({.wr_id = 5, .sges = std::array{b_->mr.sge(0, 100)}}), 0);
    EXPECT_EQ(run({.flags = SendFlag::signaled, .sges = std::array{a_->mr.sge(0, 100)}}).status, WcStatus::success);
    EXPECT_EQ(next(world_, b_->cq).wr_id, 5u);
    for (auto* qp : {&*qa_, &*qb_}) {
      must(qp->modify({.state = QpState::error}, QpAttrBit::state));
      EXPECT_EQ(must(qp->query()).state, QpState::error);
      must(qp->modify({.state = QpState::reset}, QpAttrBit::state));
    }
  }
}

TEST_P(QueuePairTest, ResetForgetsWhatIsPosted) {
  connect();
  // More receives than one round of the ring holds in all, so that lost slots would show.
  for (int round = 0; round < 4; ++round) {
    for (uint64_t i = 0; i < 10; ++i) ASSERT_EQ(qb_->post_recv({.wr_id = i}), 0);
    must(qb_->modify({.state = QpState::reset}, QpAttrBit::state));
    must(qa_->modify({.state = QpState::reset}, QpAttrBit::state));
    connect();
  }
  ASSERT_EQ(qb_->post_recv({.wr_id = 77}), 0);
  EXPECT_EQ(run({.flags = SendFlag::signaled}).status, WcStatus::success);
  EXPECT_EQ(next(world_, b_->cq).wr_id, 77u);
}

TEST_P(QueuePairTest, MemoryThatWentIsOutOfReach) {
  connect();
  std::optional<MemoryRegion> gone(must(b_->pd.register_memory(b_->memory.data(), 64, Side::kAll)));
  const uint32_t rkey = gone->rkey();
  gone.reset();
  const auto done = run({.opcode = WrOpcode::rdma_write,
                         .flags = SendFlag::signaled,
                         .sges = std::array{a_->mr.sge(0, 8)},
                         .remote_addr = remote(0),
                         .rkey = rkey});
  EXPECT_EQ(done.status, WcStatus::remote_access_error);
  EXPECT_EQ(must(qa_->query()).state, QpState::error);
}

TEST_P(QueuePairTest, APeerThatWentIsReported) {
  must(qa_->connect(b_->peer(*qb_, 0), {.timeout = 5, .retry_cnt = 2}));
  qb_.reset();
  const auto done = run({.opcode = WrOpcode::rdma_write,
                         .flags = SendFlag::signaled,
                         .sges = std::array{a_->mr.sge(0, 8)},
                         .remote_addr = remote(0),
                         .rkey = b_->mr.rkey()});
  EXPECT_EQ(done.status, WcStatus::retry_exceeded);
}

TEST_P(QueuePairTest, ConnectSaysWhatIsWrong) {
  auto refused = qa_->connect({.gid = test::World::gid(40), .qpn = 7, .psn = 0}, {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, EHOSTUNREACH);
  must(qa_->modify({.state = QpState::reset}, QpAttrBit::state));
  refused = qa_->connect(b_->peer(*qb_, 0), {.sgid_index = 1});  // IPv6 here, IPv4 there
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, EINVAL);
  must(qa_->modify({.state = QpState::reset}, QpAttrBit::state));
  connect();
  refused = qa_->connect(b_->peer(*qb_, 0), {});
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().text.find("cannot go from RTS to INIT"), std::string::npos) << refused.error().text;
}

TEST_P(QueuePairTest, OverIpv6) {
  must(qa_->connect({b_->context.info().gids[1], qb_->qpn(), 1}, {.psn = 2, .sgid_index = 1}));
  must(qb_->connect({a_->context.info().gids[1], qa_->qpn(), 2}, {.psn = 1, .sgid_index = 1}));
  EXPECT_EQ(run({.opcode = WrOpcode::rdma_write,
                 .flags = SendFlag::signaled,
                 .sges = std::array{a_->mr.sge(0, 3000)},
                 .remote_addr = remote(0),
                 .rkey = b_->mr.rkey()})
                .status,
            WcStatus::success);
  EXPECT_EQ(std::memcmp(a_->memory.data(), b_->memory.data(), 3000), 0);
}

INSTANTIATE_TEST_SUITE_P(Shapes, QueuePairTest,
                         testing::Values(Shape{false, 1}, Shape{true, 1}, Shape{false, 2}, Shape{true, 2}),
                         [](const auto& shape) {
                           return std::string(shape.param.loopback ? "Loopback" : "Wire") +
                                  std::to_string(shape.param.engines) + "Engines";
                         });

TEST(QueuePairThreads, PostPollAndEventsWithEnginesOfTheirOwnThread) {
  test::World world(test::World::Mode::threaded);
  world.add({.engines = 2});
  world.add();
  Side a(world.device(0)), b(world.device(1));
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  constexpr uint64_t kMessages = 2000;
  const std::array in{b.mr.sge(0, 64)}, out{a.mr.sge(0, 64)};
  for (uint64_t i = 0; i < 32; ++i) ASSERT_EQ(qb.post_recv({.wr_id = i, .sges = in}), 0);
  std::thread sender([&] {
    uint64_t sent = 0, completed = 0;
    std::array<Completion, 16> done;
    while (completed < kMessages) {
      while (sent < kMessages && sent - completed < 16 &&
             qa.post_send({.wr_id = sent, .flags = SendFlag::signaled, .sges = out}) == 0) {
        ++sent;
      }
      const std::size_t n = a.cq.poll(done);
      for (std::size_t i = 0; i < n; ++i) {
        EXPECT_EQ(done[i].status, WcStatus::success);
        EXPECT_EQ(done[i].wr_id, completed++);
      }
      if (n == 0) std::this_thread::yield();
    }
  });
  uint64_t received = 0;
  std::array<Completion, 16> done;
  while (received < kMessages) {
    must(b.cq.arm());
    std::size_t n = b.cq.poll(done);
    if (n == 0) {
      ASSERT_TRUE(b.channel.wait(20s)) << "after " << received;
      n = b.cq.poll(done);
    }
    for (std::size_t i = 0; i < n; ++i) {
      ASSERT_EQ(done[i].status, WcStatus::success);
      ASSERT_EQ(done[i].wr_id, received % 32);
      ASSERT_EQ(qb.post_recv({.wr_id = received++ % 32, .sges = in}), 0);
    }
  }
  sender.join();
}

}  // namespace
}  // namespace uroce
