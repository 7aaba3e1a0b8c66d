// UC between engines: whole messages over a lossless wire.
#include <gtest/gtest.h>

#include <cstring>

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

}  // namespace
}  // namespace uroce::transport
