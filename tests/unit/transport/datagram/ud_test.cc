// UD between engines: destinations, groups, and what stays the same in between.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "base/datagram_flags.h"
#include "tests/unit/transport/datagram/two_hosts.h"

namespace uroce::transport {
namespace {

const Gid kGroup = Gid::from_ipv4(0xe0000107);

using Ud = TwoHosts;

TEST_F(Ud, DatagramsGoWhereEachRequestSays) {
  TestCq *left_cq, *near_cq, *far_cq;
  TestQp& left = make_qp(left_, 0x11, QpType::ud, left_cq);
  TestQp& near = make_qp(left_, 0x12, QpType::ud, near_cq);
  TestQp& far = make_qp(right_, 0x22, QpType::ud, far_cq);
  for (TestQp* qp : {&left, &near, &far}) qp->connect({}, {});
  auto& source = left_.make_region(4096, kWriteAccess);
  auto& inbox = left_.make_region(8192, kWriteAccess);
  auto& far_inbox = right_.make_region(8192, kWriteAccess);
  const Sge near_in = inbox.sge(0, 4096 + 40), far_in = far_inbox.sge(0, 4096 + 40), out = source.sge(0, 4096);
  ASSERT_TRUE(near.post_recv({.wr_id = 1, .sges = {&near_in, 1}}));
  ASSERT_TRUE(far.post_recv({.wr_id = 2, .sges = {&far_in, 1}}));
  const uint32_t to_far = left_.make_ah(left_.route_to(right_));
  const uint32_t to_near = left_.make_ah(left_.route_to(left_), true);
  for (const auto& [ah, qpn] : {std::pair{to_far, 0x22u}, std::pair{to_near, 0x12u}}) {
    ASSERT_TRUE(left.post_send({.flags = SendFlag::signaled,
                                .sges = {&out, 1},
                                .ah = ah,
                                .remote_qpn = qpn,
                                .remote_qkey = ConnectOptions{}.qkey}));
  }
  settle();
  EXPECT_EQ(crossed_, 1u);
  EXPECT_EQ(looped_, 1u);
  for (TestCq* cq : {near_cq, far_cq}) {
    const auto cqe = cq->poll();
    ASSERT_TRUE(cqe);
    EXPECT_EQ(cqe->src_qpn, 0x11u);
    EXPECT_EQ(cqe->byte_len, 4096u + 40);
    EXPECT_EQ(cqe->flags, (WcFlags(WcFlag::grh) | kFromIpv4).bits());
  }
  EXPECT_EQ(std::memcmp(inbox.bytes().data() + 40, source.bytes().data(), 4096), 0);
  EXPECT_EQ(std::memcmp(far_inbox.bytes().data() + 40, source.bytes().data(), 4096), 0);
}

TEST_F(Ud, AGroupHearsOfEverySenderAndEachMemberHasItsReceive) {
  TestCq* cqs[4];
  TestQp* qps[4];
  TestEndpoint* homes[4] = {&left_, &left_, &right_, &right_};
  for (uint32_t i = 0; i < 4; ++i) {
    qps[i] = &make_qp(*homes[i], 0x10 + i, QpType::ud, cqs[i]);
    qps[i]->connect({}, {});
    auto& inbox = homes[i]->make_region(256, kWriteAccess);
    const Sge in = inbox.sge(0, 256);
    for (uint64_t n = 0; n < 2; ++n) ASSERT_TRUE(qps[i]->post_recv({.wr_id = n, .sges = {&in, 1}}));
  }
  for (uint32_t i = 0; i < 3; ++i) ASSERT_TRUE(homes[i]->engine().groups().join(kGroup, 0x10 + i));
  wire::Route route = left_.route_to(right_);
  route.dgid = kGroup;
  const uint32_t ah = left_.make_ah(route);
  auto& source = left_.make_region(64, kWriteAccess);
  const Sge out = source.sge(0, 64);
  const SendRequest request{
      .sges = {&out, 1}, .ah = ah, .remote_qpn = kMulticastQpn, .remote_qkey = ConnectOptions{}.qkey};
  ASSERT_TRUE(qps[0]->post_send(request));
  settle();
  for (uint32_t i = 0; i < 4; ++i) EXPECT_EQ(cqs[i]->poll().has_value(), i < 3) << "QP " << i;
  // A QP that has gone, or left, hears no more; its other groups do not matter.
  left_.engine().groups().leave(kGroup, 0x10);
  left_.engine().groups().leave_all(0x11);
  ASSERT_TRUE(qps[0]->post_send(request));
  settle();
  EXPECT_EQ(looped_, 1u) << "nobody at home listens any more";
  EXPECT_FALSE(cqs[0]->poll());
  EXPECT_FALSE(cqs[1]->poll());
  EXPECT_TRUE(cqs[2]->poll());
  right_.engine().detach(qps[2]->qp());
  ASSERT_TRUE(qps[0]->post_send(request));
  settle();
  EXPECT_FALSE(cqs[2]->poll());
}

TEST_F(Ud, AMemberWithoutAReceiveDoesNotHoldUpTheOthers) {
  TestCq *first_cq, *second_cq;
  TestQp& first = make_qp(right_, 0x20, QpType::ud, first_cq);
  TestQp& second = make_qp(right_, 0x21, QpType::ud, second_cq);
  for (TestQp* qp : {&first, &second}) {
    qp->connect({}, {});
    right_.engine().groups().join(kGroup, qp->qpn());
  }
  auto& inbox = right_.make_region(256, kWriteAccess);
  const Sge in = inbox.sge(0, 256);
  ASSERT_TRUE(second.post_recv({.sges = {&in, 1}}));
  TestCq* left_cq;
  TestQp& left = make_qp(left_, 0x11, QpType::ud, left_cq);
  left.connect({}, {});
  wire::Route route = left_.route_to(right_);
  route.dgid = kGroup;
  ASSERT_TRUE(
      left.post_send({.ah = left_.make_ah(route), .remote_qpn = kMulticastQpn, .remote_qkey = ConnectOptions{}.qkey}));
  settle();
  EXPECT_FALSE(first_cq->poll());
  EXPECT_TRUE(second_cq->poll());
  EXPECT_EQ(drops(right_, wire::Drop::recv_queue_empty), 1u);
}

TEST_F(Ud, AHandleThatWasDestroyedSendsNothing) {
  TestCq* cq;
  TestQp& qp = make_qp(left_, 0x11, QpType::ud, cq);
  qp.connect({}, {});
  const uint32_t ah = left_.make_ah(left_.route_to(right_));
  ASSERT_TRUE(left_.handles().remove(ah));
  ASSERT_TRUE(qp.post_send({.flags = SendFlag::signaled, .ah = ah, .remote_qpn = 0x22}));
  settle();
  EXPECT_EQ(crossed_, 0u);
  EXPECT_EQ(cq->poll()->status, static_cast<uint8_t>(WcStatus::local_qp_operation_error));
  EXPECT_EQ(qp.state(), QpState::sqe);
}

TEST_F(Ud, OneBurstServesManyQueuePairs) {
  // Completions come with the burst that carried the frames, to each QP its own.
  std::vector<TestQp*> qps;
  std::vector<TestCq*> cqs(20);
  const uint32_t ah = left_.make_ah(left_.route_to(right_));
  for (uint32_t i = 0; i < 20; ++i) {
    qps.push_back(&make_qp(left_, 0x10 + i, QpType::ud, cqs[i]));
    qps.back()->connect({}, {});
    for (uint64_t n = 0; n < 5; ++n) {
      ASSERT_TRUE(qps.back()->post_send({.wr_id = n, .flags = SendFlag::signaled, .ah = ah, .remote_qpn = 0x22}));
    }
  }
  settle();
  EXPECT_EQ(crossed_, 100u);
  for (TestCq* cq : cqs) {
    for (uint64_t n = 0; n < 5; ++n) EXPECT_EQ(cq->poll()->wr_id, n);
    EXPECT_FALSE(cq->poll());
  }
}

TEST_F(Ud, QueryShowsTheQKey) {
  TestCq* cq;
  TestQp& qp = make_qp(left_, 0x11, QpType::ud, cq);
  qp.connect({.sq_psn = 77, .qkey = 0x5555}, {});
  EXPECT_EQ(qp.query().qkey, 0x5555u);
  EXPECT_EQ(qp.query().sq_psn, 77u);
  QpAttr attr;
  attr.qkey = 0x6666;
  left_.engine().modify(qp.qp(), attr, QpAttrBit::qkey, nullptr, false);
  EXPECT_EQ(qp.query().qkey, 0x6666u);
  qp.set_state(QpState::reset);
  EXPECT_EQ(qp.query().qkey, 0u);
}

}  // namespace
}  // namespace uroce::transport
