#include "control/srq.h"
#include "control/cq.h"
#include "control/qp.h"
#include "control/region.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "control/device_session.h"
#include "world.h"

namespace uroce::control {
namespace {

using test::World;

TEST(ControlSrq, ItsQueuePairsLiveWhereItLives) {
  World world;
  world.add({.engines = 4});
  const auto session = *DeviceSession::open(world.device());
  const auto pd = *session->create_pd();
  const auto cq = *session->create_cq(16, nullptr);
  std::set<uint32_t> engines;
  for (int i = 0; i < 4; ++i) {
    const auto srq = *session->create_srq(pd, 10, 2);
    EXPECT_EQ(srq->max_wr(), 16u);
    EXPECT_EQ(srq->max_sge(), 2u);
    engines.insert(srq->engine());
    for (int j = 0; j < 3; ++j) {
      const auto qp = *session->create_qp(pd, cq, cq, {}, srq);
      EXPECT_EQ(qp->engine(), srq->engine());
      EXPECT_EQ(qp->qpn() & 3, srq->engine());
      EXPECT_EQ(qp->cap().max_recv_wr, 0u);
      EXPECT_EQ(qp->recv_queue().entries, 0u);
    }
    const QpInit greedy{.cap = {.max_recv_wr = UINT32_MAX, .max_recv_sge = UINT32_MAX}};  // not used
    EXPECT_TRUE(session->create_qp(pd, cq, cq, greedy, srq).has_value());
    const int elsewhere = static_cast<int>((srq->engine() + 1) % 4);
    const auto refused = session->create_qp(pd, cq, cq, {.engine = elsewhere}, srq);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, EINVAL);
    EXPECT_TRUE(session->create_qp(pd, cq, cq, {.engine = static_cast<int>(srq->engine())}, srq).has_value());
  }
  EXPECT_EQ(engines.size(), 4u);  // placed in turn
}

TEST(ControlSrq, LivesAsLongAsAQueuePairUsesIt) {
  World world;
  world.add();
  const auto session = *DeviceSession::open(world.device());
  const auto pd = *session->create_pd();
  const auto cq = *session->create_cq(16, nullptr);
  auto srq = *session->create_srq(pd, 4, 1);
  const std::weak_ptr<ControlSrq> watch = srq;
  auto qp = *session->create_qp(pd, cq, cq, {}, srq);
  srq.reset();
  EXPECT_FALSE(watch.expired());
  qp.reset();
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace uroce::control
