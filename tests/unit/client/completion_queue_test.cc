#include <array>
#include <cerrno>
#include <cstdio>
#include <functional>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "endpoints.h"
#include "message/connection.h"
#include "tests/support/system_calls.h"

namespace uroce {
namespace {

using namespace std::chrono_literals;
using test::must;
using test::next;
using test::Side;

class CompletionQueueTest : public testing::Test {
 protected:
  CompletionQueueTest() {
    world_.add();
    a_.emplace(world_.device());
    b_.emplace(world_.device());
    qa_.emplace(a_->make_qp());
    qb_.emplace(b_->make_qp());
    connect(*a_, *qa_, *b_, *qb_);
  }
  void send(SendFlags flags = SendFlag::signaled) {
    ASSERT_EQ(qb_->post_recv({.wr_id = 1, .sges = std::array{b_->mr.sge(0, 64)}}), 0);
    ASSERT_EQ(qa_->post_send({.flags = flags, .sges = std::array{a_->mr.sge(0, 8)}}), 0);
  }
  /// Runs until the receive has completed, and takes the completion.
  void settle() { EXPECT_EQ(next(world_, b_->cq).status, WcStatus::success); }

  test::World world_;
  std::optional<Side> a_, b_;
  std::optional<QueuePair> qa_, qb_;
};

TEST_F(CompletionQueueTest, AnArmedQueueRaisesOneEvent) {
  must(b_->cq.arm());
  send();
  send();
  settle();
  settle();
  EXPECT_EQ(b_->channel.wait(20s), b_->cq.id());
  EXPECT_FALSE(b_->channel.wait(0ns));
  send();
  settle();
  EXPECT_FALSE(b_->channel.wait(0ns)) << "not armed again";
}

bool kernel_is(int major, int minor) {
  utsname name{};
  int has_major = 0, has_minor = 0;
  return uname(&name) == 0 && std::sscanf(name.release, "%d.%d", &has_major, &has_minor) == 2 &&
         std::pair(has_major, has_minor) >= std::pair(major, minor);
}

// Applications that sleep pay for each of these calls with every message (valkey, UCX).
TEST_F(CompletionQueueTest, AnEventIsRaisedAndTakenByOneSystemCallEach) {
  send();
  settle();
  send();
  send();
  const auto calls = test::count_system_calls(std::array<std::function<void()>, 4>{
      [&] { settle(); }, [&] { must(b_->cq.arm()); }, [&] { settle(); }, [&] { b_->channel.wait(20s); }});
  if (!calls) GTEST_SKIP() << "this process may trace no child";
  ASSERT_EQ(calls->size(), 4u);
  EXPECT_EQ((*calls)[1], 0u) << "to arm";
  EXPECT_EQ((*calls)[2], (*calls)[0] + 1) << "to raise";
  EXPECT_EQ((*calls)[3], kernel_is(6, 4) ? 1u : 3u) << "to take";
}

TEST(WakeTest, AnEngineIsWokenByOneSystemCall) {
  int pipe[2];
  ASSERT_EQ(pipe2(pipe, O_CLOEXEC | O_NONBLOCK), 0);
  ASSERT_TRUE(message::write_token(pipe[1]));  // it learns what the kernel knows
  const auto calls =
      test::count_system_calls(std::array<std::function<void()>, 1>{[&] { message::write_token(pipe[1]); }});
  close(pipe[0]);
  close(pipe[1]);
  if (!calls) GTEST_SKIP() << "this process may trace no child";
  EXPECT_EQ(*calls, std::vector<std::size_t>{kernel_is(6, 18) ? 1u : 3u});
}

/// Another completion queue of the second side's channel, with a queue pair that receives.
struct OtherQueue {
  OtherQueue(Side& sender, Side& receiver)
      : a(sender),
        b(receiver),
        cq(must(b.context.create_cq(16, &b.channel))),
        qa(a.make_qp()),
        qb(must(b.context.create_qp(b.pd, cq, cq, {}))) {
    connect(a, qa, b, qb);
  }
  /// A completion, polled, with its event.
  void complete(test::World& world) {
    must(cq.arm());
    ASSERT_EQ(qb.post_recv({.sges = std::array{b.mr.sge(0, 64)}}), 0);
    ASSERT_EQ(qa.post_send({.sges = std::array{a.mr.sge(0, 8)}}), 0);
    EXPECT_EQ(next(world, cq).status, WcStatus::success);
  }
  Side& a;
  Side& b;
  CompletionQueue cq;
  QueuePair qa, qb;
};

TEST_F(CompletionQueueTest, EventsOfSeveralQueuesComeInTheirOrder) {
  OtherQueue other(*a_, *b_);
  must(b_->cq.arm());
  other.complete(world_);
  other.complete(world_);
  send();
  settle();
  other.complete(world_);
  EXPECT_EQ(b_->channel.wait(0ns), other.cq.id());
  EXPECT_EQ(b_->channel.wait(0ns), other.cq.id());
  EXPECT_EQ(b_->channel.wait(0ns), b_->cq.id());
  EXPECT_EQ(b_->channel.wait(0ns), other.cq.id());
  EXPECT_FALSE(b_->channel.wait(0ns));
}

TEST_F(CompletionQueueTest, AQueueThatGoesTakesItsEventsAlone) {
  must(b_->cq.arm());
  send();
  settle();
  {
    OtherQueue other(*a_, *b_);
    other.complete(world_);
  }
  EXPECT_EQ(b_->channel.wait(0ns), b_->cq.id());
  EXPECT_FALSE(b_->channel.wait(0ns));
}

TEST_F(CompletionQueueTest, AResizeKeepsWaitingCompletions) {
  auto cq = must(b_->context.create_cq(4, &b_->channel));
  auto qb = must(b_->context.create_qp(b_->pd, cq, cq, {}));
  auto qa = a_->make_qp();
  connect(*a_, qa, *b_, qb);
  const auto send_some = [&](uint64_t from, uint64_t to) {
    for (uint64_t id = from; id < to; ++id) {
      ASSERT_EQ(qb.post_recv({.wr_id = id, .sges = std::array{b_->mr.sge(0, 64)}}), 0);
      ASSERT_EQ(qa.post_send({.flags = SendFlag::signaled, .sges = std::array{a_->mr.sge(0, 8)}}), 0);
      EXPECT_EQ(next(world_, a_->cq).status, WcStatus::success);
    }
  };
  send_some(0, 3);
  must(cq.resize(16));
  EXPECT_EQ(cq.entries(), 16u);
  send_some(3, 14);
  EXPECT_EQ(cq.resize(8).error().code, EINVAL) << "14 wait";
  EXPECT_EQ(cq.resize(0).error().code, EINVAL);
  for (uint64_t id = 0; id < 10; ++id) EXPECT_EQ(next(world_, cq).wr_id, id);
  must(cq.resize(4));
  EXPECT_EQ(cq.entries(), 4u);
  must(cq.arm());
  for (uint64_t id = 10; id < 14; ++id) EXPECT_EQ(next(world_, cq).wr_id, id);
  send_some(14, 15);
  EXPECT_EQ(b_->channel.wait(20s), cq.id()) << "what was armed stays so";
  EXPECT_EQ(next(world_, cq).wr_id, 14u);
}

TEST_F(CompletionQueueTest, TheDescriptorIsReadableWhileAnEventWaits) {
  const auto readable = [this] {
    pollfd event{.fd = b_->channel.fd(), .events = POLLIN, .revents = 0};
    return poll(&event, 1, 0) == 1;
  };
  must(b_->cq.arm());
  EXPECT_FALSE(readable());
  send();
  settle();
  EXPECT_TRUE(readable());
  EXPECT_TRUE(b_->channel.wait(0ns));
  EXPECT_FALSE(readable());
}

TEST_F(CompletionQueueTest, ArmedForSolicitedIgnoresTheOthers) {
  must(b_->cq.arm(true));
  send();
  settle();
  EXPECT_FALSE(b_->channel.wait(0ns));
  send(SendFlag::signaled | SendFlag::solicited);
  settle();
  EXPECT_TRUE(b_->channel.wait(0ns));
}

TEST_F(CompletionQueueTest, ArmingForSolicitedDoesNotWeakenArmingForAny) {
  must(b_->cq.arm());
  must(b_->cq.arm(true));
  send();
  settle();
  EXPECT_TRUE(b_->channel.wait(0ns));
}

TEST_F(CompletionQueueTest, ADisarmedQueueRaisesNoEvent) {
  EXPECT_FALSE(b_->cq.disarm()) << "not armed";
  must(b_->cq.arm());
  EXPECT_TRUE(b_->cq.disarm());
  send();
  settle();
  EXPECT_FALSE(b_->channel.wait(0ns));
  must(b_->cq.arm());
  send();
  settle();
  EXPECT_FALSE(b_->cq.disarm()) << "the event was raised";
  EXPECT_TRUE(b_->channel.wait(0ns));
}

TEST_F(CompletionQueueTest, WaitingRunsTheEnginesOfAnEmbeddedStack) {
  must(b_->cq.arm());
  send();
  EXPECT_EQ(b_->channel.wait(20s), b_->cq.id());  // no other thread polls
}

TEST_F(CompletionQueueTest, ArmingNeedsAChannel) {
  auto cq = must(a_->context.create_cq(4));
  const auto armed = cq.arm();
  ASSERT_FALSE(armed.has_value());
  EXPECT_EQ(armed.error().code, EINVAL);
}

TEST_F(CompletionQueueTest, AnOverrunIsAnEventAndFailsTheQueuePair) {
  auto cq = must(a_->context.create_cq(4));
  auto qp = must(a_->context.create_qp(a_->pd, cq, cq, {}));
  auto peer = b_->make_qp();
  connect(*a_, qp, *b_, peer);
  const SendRequest write{.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .remote_addr = b_->mr.sge(0, 0).addr,
                          .rkey = b_->mr.rkey()};
  for (int i = 0; i < 6; ++i) ASSERT_EQ(qp.post_send(write), 0);
  EXPECT_TRUE(world_.run_until([&] { return must(qp.query()).state == QpState::error; }));
  bool reported = false;
  while (const auto event = a_->context.next_async_event(0ns)) {
    reported |= event->type == AsyncEventType::cq_error && event->object == cq.id();
  }
  EXPECT_TRUE(reported);
}

TEST_F(CompletionQueueTest, AnOverrunThatIsIgnoredDropsTheCompletion) {
  auto cq = must(a_->context.create_cq(4, nullptr, {.ignore_overrun = true}));
  auto qp = must(a_->context.create_qp(a_->pd, cq, cq, {}));
  auto peer = b_->make_qp();
  connect(*a_, qp, *b_, peer);
  const SendRequest write{.wr_id = 1,
                          .opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .remote_addr = b_->mr.sge(0, 0).addr,
                          .rkey = b_->mr.rkey()};
  const auto dropped = [&] {
    for (const auto& [name, value] : a_->context.counters()) {
      if (name == "completions_dropped") return value;
    }
    return uint64_t{0};
  };
  for (int i = 0; i < 6; ++i) ASSERT_EQ(qp.post_send(write), 0);
  EXPECT_TRUE(world_.run_until([&] { return dropped() == 2; }));
  for (int i = 0; i < 4; ++i) EXPECT_EQ(next(world_, cq).wr_id, 1u);
  EXPECT_EQ(must(qp.query()).state, QpState::rts);
  ASSERT_EQ(qp.post_send({.wr_id = 7,
                          .opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .remote_addr = b_->mr.sge(0, 0).addr,
                          .rkey = b_->mr.rkey()}),
            0);
  EXPECT_EQ(next(world_, cq).wr_id, 7u);
}

TEST_F(CompletionQueueTest, AModeratedEventWaitsForMoreCompletions) {
  must(b_->cq.moderate(3, UINT16_MAX));
  must(b_->cq.arm());
  for (int i = 0; i < 2; ++i) send();
  for (int i = 0; i < 2; ++i) settle();
  send();
  EXPECT_EQ(b_->channel.wait(20s), b_->cq.id());
  settle();
  // Time ends the wait, too.
  must(b_->cq.moderate(1000, 1000));
  must(b_->cq.arm());
  send();
  EXPECT_EQ(b_->channel.wait(20s), b_->cq.id());
  settle();
  must(b_->cq.moderate(0, 0));
  must(b_->cq.arm());
  send();
  EXPECT_EQ(b_->channel.wait(20s), b_->cq.id());
  settle();
}

TEST_F(CompletionQueueTest, AModeratedQueueMayGoWithAnEventThatWaits) {
  for (int round = 0; round < 3; ++round) {
    auto cq = must(b_->context.create_cq(16, &b_->channel));
    must(cq.moderate(100, 2000));
    auto qb = std::optional(must(b_->context.create_qp(b_->pd, cq, cq, {})));
    auto qa = a_->make_qp();
    connect(*a_, qa, *b_, *qb);
    must(cq.arm());
    ASSERT_EQ(qb->post_recv({.wr_id = 1, .sges = std::array{b_->mr.sge(0, 64)}}), 0);
    ASSERT_EQ(qa.post_send({.sges = std::array{a_->mr.sge(0, 8)}}), 0);
    EXPECT_EQ(next(world_, cq).status, WcStatus::success);
    qb.reset();
  }
  EXPECT_FALSE(b_->channel.wait(10ms)) << "of queues that are gone";
}

TEST(SharedReceiveQueueTest, FeedsItsQueuePairsAndReportsItsLimit) {
  test::World world;
  world.add({.engines = 2});
  Side a(world.device()), b(world.device());
  auto srq = must(b.context.create_srq(b.pd, 8, 1));
  EXPECT_EQ(srq.set_limit(9).error().code, EINVAL);
  must(srq.set_limit(4));
  const Sge two[2] = {};
  EXPECT_EQ(srq.post_recv({.sges = {two, 8}}), EINVAL);
  for (uint32_t i = 0; i < 8; ++i) ASSERT_EQ(srq.post_recv({.wr_id = i, .sges = std::array{b.mr.sge(64 * i, 64)}}), 0);
  EXPECT_EQ(srq.post_recv({}), ENOMEM);
  std::vector<QueuePair> senders, receivers;
  for (int i = 0; i < 2; ++i) {
    senders.push_back(a.make_qp());
    receivers.push_back(b.make_qp({}, &srq));
    connect(a, senders.back(), b, receivers.back());
    EXPECT_EQ(receivers.back().post_recv({}), EINVAL);
  }
  for (uint64_t i = 0; i < 6; ++i) {
    ASSERT_EQ(senders[i % 2].post_send({.flags = SendFlag::signaled, .sges = std::array{a.mr.sge(0, 8)}}), 0);
    const auto received = next(world, b.cq);
    EXPECT_EQ(received.wr_id, i);
    EXPECT_EQ(received.qpn, receivers[i % 2].qpn());
  }
  std::optional<AsyncEvent> limit;
  while (const auto event = b.context.next_async_event(0ns)) {
    if (event->type != AsyncEventType::srq_limit_reached) continue;
    EXPECT_FALSE(limit) << "fires once";
    limit = event;
  }
  ASSERT_TRUE(limit);
  EXPECT_EQ(limit->object, srq.id());
}

}  // namespace
}  // namespace uroce
