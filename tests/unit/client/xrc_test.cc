// Extended reliable connections through the public API.
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include <unistd.h>

#include "endpoints.h"

namespace uroce {
namespace {

using test::expect_error;
using test::must;
using test::next;
using test::Side;

/// A file that no other test opens.
class XrcFile {
 public:
  int fd() const { return fileno(file_.get()); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::unique_ptr<std::FILE, Close> file_{std::tmpfile()};
};

class XrcTest : public testing::TestWithParam<uint32_t> {
 protected:
  XrcTest() {
    world_.add({.engines = GetParam()});
    world_.add({.engines = GetParam()});
    from_.emplace(world_.device(0));
    to_.emplace(world_.device(1));
    for (std::size_t i = 0; i < Side::kBytes; ++i) from_->memory[i] = static_cast<std::byte>(i * 7);
  }
  SharedReceiveQueue queue_of(Side& side, const XrcDomain& domain) {
    return must(side.context.create_xrc_srq(side.pd, domain, side.cq, 16, 2));
  }
  /// An initiator that is connected to `target`.
  QueuePair initiator_for(QueuePair& target) {
    auto qp = from_->make_qp({.type = QpType::xrc_initiator});
    connect(*from_, qp, *to_, target);
    return qp;
  }
  void send(QueuePair& qp, uint32_t srqn, uint32_t length) {
    ASSERT_EQ(qp.post_send({.opcode = WrOpcode::send,
                            .flags = SendFlag::signaled,
                            .sges = std::array{from_->mr.sge(0, length)},
                            .remote_srqn = srqn}),
              0);
  }

  test::World world_;
  std::optional<Side> from_, to_;
};

TEST_P(XrcTest, OneConnectionServesManyQueues) {
  auto domain = must(to_->context.open_xrc_domain({}));
  auto target = must(to_->context.create_xrc_target(domain));
  auto one = queue_of(*to_, domain), two = queue_of(*to_, domain);
  auto qp = initiator_for(target);
  ASSERT_EQ(one.post_recv({.wr_id = 1, .sges = std::array{to_->mr.sge(0, 10000)}}), 0);
  ASSERT_EQ(two.post_recv({.wr_id = 2, .sges = std::array{to_->mr.sge(20000, 10000)}}), 0);
  send(qp, two.id(), 5000);
  send(qp, one.id(), 7000);
  for (const uint64_t wr : {2u, 1u}) {
    const auto received = next(world_, to_->cq);
    EXPECT_EQ(received.wr_id, wr);
    EXPECT_EQ(received.qpn, target.qpn());
    EXPECT_EQ(next(world_, from_->cq).status, WcStatus::success);
  }
  EXPECT_EQ(std::memcmp(to_->memory.data(), from_->memory.data(), 7000), 0);
  EXPECT_EQ(std::memcmp(to_->memory.data() + 20000, from_->memory.data(), 5000), 0);
}

TEST_P(XrcTest, WritesReadsAndAtomics) {
  auto domain = must(to_->context.open_xrc_domain({}));
  auto target = must(to_->context.create_xrc_target(domain));
  auto queue = queue_of(*to_, domain);
  auto qp = initiator_for(target);
  const auto post = [&](WrOpcode opcode, uint32_t length, uint64_t offset) {
    return qp.post_send({.opcode = opcode,
                         .flags = SendFlag::signaled,
                         .sges = std::array{from_->mr.sge(offset, length)},
                         .remote_addr = to_->mr.sge(offset, 0).addr,
                         .rkey = to_->mr.rkey(),
                         .compare_add = 5,
                         .remote_srqn = queue.id()});
  };
  to_->memory[40000] = std::byte{9};
  ASSERT_EQ(post(WrOpcode::rdma_write, 9000, 0), 0);
  ASSERT_EQ(post(WrOpcode::rdma_read, 9000, 20000), 0);
  ASSERT_EQ(post(WrOpcode::fetch_add, 8, 40000), 0);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(next(world_, from_->cq).status, WcStatus::success);
  EXPECT_EQ(std::memcmp(to_->memory.data(), from_->memory.data(), 9000), 0);
  EXPECT_EQ(std::memcmp(to_->memory.data() + 20000, from_->memory.data() + 20000, 9000), 0);
  EXPECT_EQ(from_->memory[40000], std::byte{9});
  EXPECT_EQ(to_->memory[40000], std::byte{14});
}

TEST_P(XrcTest, AFileMakesADomainCommon) {
  const XrcFile file, other;
  Side second(world_.device(1));
  expect_error(second.context.open_xrc_domain({.fd = file.fd(), .create = false}), EAGAIN, "O_CREAT");
  auto domain = must(to_->context.open_xrc_domain({.fd = file.fd()}));
  expect_error(second.context.open_xrc_domain({.fd = file.fd(), .exclusive = true}), EINVAL, "O_EXCL");
  auto same = must(second.context.open_xrc_domain({.fd = file.fd(), .create = false}));
  auto another = must(second.context.open_xrc_domain({.fd = other.fd(), .exclusive = true}));
  expect_error(second.context.open_xrc_domain({.fd = 9999}), EBADF, "9999");

  auto target = must(to_->context.create_xrc_target(domain));
  expect_error(second.context.open_xrc_target(another, target.qpn()), EINVAL, "target");
  auto opened = must(second.context.open_xrc_target(same, target.qpn()));
  EXPECT_EQ(opened.qpn(), target.qpn());
  expect_error(second.context.create_xrc_target(domain), EINVAL, "another context");

  // The second program's queue, over the connection that the first has made.
  auto queue = queue_of(second, same), foreign = queue_of(second, another);
  auto qp = initiator_for(target);
  ASSERT_EQ(queue.post_recv({.wr_id = 8, .sges = std::array{second.mr.sge(0, 100)}}), 0);
  send(qp, queue.id(), 100);
  EXPECT_EQ(next(world_, second.cq).wr_id, 8u);
  EXPECT_EQ(next(world_, from_->cq).status, WcStatus::success);
  send(qp, foreign.id(), 100);
  EXPECT_EQ(next(world_, from_->cq).status, WcStatus::remote_invalid_request);
  // Both hear of it.
  for (Side* side : {&*to_, &second}) {
    std::optional<AsyncEvent> event;
    world_.run_until([&] { return (event = side->context.next_async_event(std::chrono::nanoseconds(0))).has_value(); });
    if (event && event->type == AsyncEventType::communication_established) {
      event = side->context.next_async_event(std::chrono::seconds(20));
    }
    ASSERT_TRUE(event);
    EXPECT_EQ(event->type, AsyncEventType::qp_request_error);
    EXPECT_EQ(event->object, target.qpn());
  }
}

TEST_P(XrcTest, ATargetLivesUntilItsLastHolderLeaves) {
  const XrcFile file;
  std::optional<Side> maker(world_.device(1));
  std::optional domain(must(maker->context.open_xrc_domain({.fd = file.fd()})));
  std::optional target(must(maker->context.create_xrc_target(*domain)));
  auto same = must(to_->context.open_xrc_domain({.fd = file.fd()}));
  std::optional opened(must(to_->context.open_xrc_target(same, target->qpn())));
  const uint32_t qpn = target->qpn();
  auto qp = initiator_for(*target);
  target.reset();
  domain.reset();
  maker.reset();
  auto queue = queue_of(*to_, same);
  ASSERT_EQ(queue.post_recv({.wr_id = 8, .sges = std::array{to_->mr.sge(0, 100)}}), 0);
  send(qp, queue.id(), 100);
  EXPECT_EQ(next(world_, to_->cq).wr_id, 8u);
  EXPECT_EQ(must(opened->query()).state, QpState::rts);
  opened.reset();
  expect_error(to_->context.open_xrc_target(same, qpn), EINVAL, "target");
}

TEST_P(XrcTest, AQueueMayGoInTheMiddleOfAMessage) {
  auto domain = must(to_->context.open_xrc_domain({}));
  auto target = must(to_->context.create_xrc_target(domain));
  std::optional queue(queue_of(*to_, domain));
  auto qp = initiator_for(target);
  ASSERT_EQ(queue->post_recv({.wr_id = 1, .sges = std::array{to_->mr.sge(0, 60000)}}), 0);
  send(qp, queue->id(), 60000);
  world_.poll();
  queue.reset();
  EXPECT_NE(next(world_, from_->cq).status, WcStatus::fatal);
  EXPECT_TRUE(world_.run_until([&] { return must(target.query()).state != QpState::init; }));
}

TEST_P(XrcTest, ATargetPostsNothingAndAnInitiatorReceivesNothing) {
  auto domain = must(to_->context.open_xrc_domain({}));
  auto target = must(to_->context.create_xrc_target(domain));
  auto qp = initiator_for(target);
  EXPECT_EQ(target.post_send({.opcode = WrOpcode::send}), EINVAL);
  EXPECT_EQ(target.post_recv({}), EINVAL);
  EXPECT_EQ(qp.post_recv({}), EINVAL);
  EXPECT_EQ(target.cap().max_send_wr, 0u);
  expect_error(to_->context.create_qp(to_->pd, to_->cq, to_->cq, {.type = QpType::xrc_target}), EINVAL, "XRC domain");
  auto srq = must(from_->context.create_srq(from_->pd, 4, 1));
  expect_error(from_->context.create_qp(from_->pd, from_->cq, from_->cq, {.type = QpType::xrc_initiator}, &srq), EINVAL,
               "receives nothing");
  auto queue = queue_of(*to_, domain);
  expect_error(to_->context.create_qp(to_->pd, to_->cq, to_->cq, {}, &queue), EINVAL, "XRC domain");
}

TEST_P(XrcTest, AQueueKeepsItsNumberWhenItIsResized) {
  auto domain = must(to_->context.open_xrc_domain({}));
  auto target = must(to_->context.create_xrc_target(domain));
  auto queue = queue_of(*to_, domain);
  auto qp = initiator_for(target);
  ASSERT_EQ(queue.post_recv({.wr_id = 1, .sges = std::array{to_->mr.sge(0, 100)}}), 0);
  must(queue.resize(64));
  send(qp, queue.id(), 100);
  EXPECT_EQ(next(world_, to_->cq).wr_id, 1u);
}

INSTANTIATE_TEST_SUITE_P(Engines, XrcTest, testing::Values(1u, 4u));

}  // namespace
}  // namespace uroce
