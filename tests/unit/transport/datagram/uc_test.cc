// UC between engines: whole messages over a lossless wire.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/unit/transport/datagram/two_hosts.h"

namespace uroce::transport {
namespace {

using Uc = TwoHosts;

TEST_F(Uc, MovesMessagesOfManyPackets) {
  TestCq *left_cq, *right_cq;
  TestQp& left = make_qp(left_, 0x11, QpType::uc, left_cq);
  TestQp& right = make_qp(right_, 0x22, QpType::uc, right_cq);
  left.connect({.dest_qpn = 0x22, .sq_psn = 0xfffff0, .rq_psn = 3}, left_.route_to(right_));
  right.connect({.dest_qpn = 0x11, .sq_psn = 3, .rq_psn = 0xfffff0}, right_.route_to(left_));
  auto& source = left_.make_region(1 << 19, kWriteAccess);
  auto& target = right_.make_region(1 << 19, kWriteAccess);
  const Sge in = target.sge(300'000, 200'000);
  ASSERT_TRUE(right.post_recv({.wr_id = 7, .sges = {&in, 1}}));
  const Sge out = source.sge(3, 200'000);
  ASSERT_TRUE(left.post_send({.wr_id = 1,
                              .opcode = WrOpcode::rdma_write,
                              .flags = SendFlag::signaled,
                              .sges = {&out, 1},
                              .remote_addr = target.va() + 5,
                              .rkey = target.key()}));
  ASSERT_TRUE(left.post_send({.wr_id = 2, .flags = SendFlag::signaled, .sges = {&out, 1}}));
  settle();
  EXPECT_EQ(std::memcmp(target.bytes().data() + 5, source.bytes().data() + 3, 200'000), 0);
  EXPECT_EQ(std::memcmp(target.bytes().data() + 300'000, source.bytes().data() + 3, 200'000), 0);
  EXPECT_EQ(left_cq->poll()->wr_id, 1u);
  EXPECT_EQ(left_cq->poll()->wr_id, 2u);
  EXPECT_EQ(right_cq->poll()->wr_id, 7u);
  EXPECT_EQ(crossed_, 2 * ((200'000 + 1023) / 1024u)) << "no packet but those of the messages";
  EXPECT_EQ(left_.engine().next_deadline(), kNever);
}

// C11-39: a queue pair that fails by an overrun reports no drained send queue before.
TEST_F(Uc, AnOverrunWhileDrainingReportsNoDrainedQueue) {
  TestCq& small = left_.make_cq(1);
  TestQp& left = left_.make_qp({.qpn = 0x11, .type = QpType::uc, .send_cq = &small, .recv_cq = &small});
  left.connect({.dest_qpn = 0x22}, left_.route_to(right_));
  auto& source = left_.make_region(4096, kWriteAccess);
  const Sge one = source.sge(0, 10), many = source.sge(0, 3000);
  ASSERT_TRUE(left.post_send({.wr_id = 1, .flags = SendFlag::signaled, .sges = {&one, 1}}));
  left_.run(now_);  // Its completion fills the queue.
  ASSERT_TRUE(left.post_send({.wr_id = 2, .flags = SendFlag::signaled, .sges = {&many, 1}}));
  left_.sink().set_room(1);
  left_.engine().poll(left_.sink(), now_);
  left.set_state(QpState::sqd, true);
  ASSERT_TRUE(left_.events().async.empty()) << "the message has not left in full";
  left_.sink().set_room(SIZE_MAX);
  left_.run(now_);
  std::vector<AsyncEventType> seen;
  for (const auto& event : left_.events().async) seen.push_back(event.type);
  EXPECT_EQ(seen, (std::vector{AsyncEventType::cq_error, AsyncEventType::qp_fatal}));
  EXPECT_EQ(left.state(), QpState::error);
}

}  // namespace
}  // namespace uroce::transport
