// Attaching queue pairs to multicast groups. That frames then arrive is shown in tests/unit/client/unreliable_test.cc.
#include <cerrno>

#include <gtest/gtest.h>

#include "control/cq.h"
#include "control/device_session.h"
#include "control/qp.h"
#include "control/region.h"
#include "transport/datagram/multicast.h"
#include "world.h"

namespace uroce::control {
namespace {

using test::expect_error;
using test::World;

const Gid kGroup = Gid::from_ipv4(0xe0000107);

class MulticastTest : public testing::Test {
 protected:
  MulticastTest() {
    world_.add({.engines = 2});
    session_ = *DeviceSession::open(world_.device());
    pd_ = *session_->create_pd();
    cq_ = *session_->create_cq(64, nullptr);
  }
  std::shared_ptr<ControlQp> create(QpType type) {
    return session_->create_qp(pd_, cq_, cq_, {.type = type}, nullptr).value();
  }

  World world_;
  std::shared_ptr<DeviceSession> session_;
  std::shared_ptr<Pd> pd_;
  std::shared_ptr<Cq> cq_;
};

TEST_F(MulticastTest, AttachesAndDetaches) {
  const auto qp = create(QpType::ud);
  EXPECT_TRUE(qp->attach_multicast(kGroup));
  EXPECT_TRUE(qp->attach_multicast(kGroup));
  EXPECT_TRUE(qp->detach_multicast(kGroup));
  expect_error(qp->detach_multicast(kGroup), EINVAL, "not attached");
}

TEST_F(MulticastTest, TheLinkHearsOfTheFirstMemberAndOfTheLast) {
  const std::set<Gid> joined{kGroup};
  auto one = create(QpType::ud);
  const auto two = create(QpType::ud);
  ASSERT_TRUE(one->attach_multicast(kGroup));
  ASSERT_TRUE(one->attach_multicast(kGroup));
  ASSERT_TRUE(two->attach_multicast(kGroup));
  EXPECT_EQ(world_.port().groups, joined);
  ASSERT_TRUE(two->detach_multicast(kGroup));
  EXPECT_EQ(world_.port().groups, joined);
  one.reset();
  EXPECT_TRUE(world_.port().groups.empty());
}

TEST_F(MulticastTest, ErrorsNameTheFault) {
  expect_error(create(QpType::rc)->attach_multicast(kGroup), EINVAL, "only a UD");
  expect_error(create(QpType::uc)->attach_multicast(kGroup), EINVAL, "only a UD");
  expect_error(create(QpType::ud)->attach_multicast(World::gid(0)), EINVAL, "not a multicast group");
}

TEST_F(MulticastTest, IsBoundedAndTheRefusedLeavesNothingBehind) {
  const auto qp = create(QpType::ud);
  const auto group = [](uint32_t i) { return Gid::from_ipv4(0xe1000000 + i); };
  constexpr auto kMost = static_cast<uint32_t>(transport::MulticastGroups::kMaxMembers);
  for (uint32_t i = 0; i < kMost; ++i) ASSERT_TRUE(qp->attach_multicast(group(i)));
  expect_error(qp->attach_multicast(kGroup), ENOMEM, "4096 attachments");
  expect_error(qp->detach_multicast(kGroup), EINVAL, "not attached");
  EXPECT_TRUE(qp->detach_multicast(group(0)));
  EXPECT_TRUE(qp->attach_multicast(kGroup));
}

TEST_F(MulticastTest, AQueuePairThatGoesLeavesItsGroups) {
  constexpr auto kMost = static_cast<uint32_t>(transport::MulticastGroups::kMaxMembers);
  for (int round = 0; round < 2; ++round) {
    const auto qp = create(QpType::ud);
    for (uint32_t i = 0; i < kMost; ++i) ASSERT_TRUE(qp->attach_multicast(Gid::from_ipv4(0xe1000000 + i)));
  }
}

}  // namespace
}  // namespace uroce::control
