#include "transport/datagram/multicast.h"

#include <gtest/gtest.h>

namespace uroce::transport {
namespace {

const Gid kV4 = Gid::from_ipv4(0xe0000101);
const Gid kOther = Gid::from_ipv4(0xe0000102);
const Gid kV6{{0xff, 0x0e, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};

std::vector<uint32_t> qpns(const MulticastGroups& groups, const Gid& group) {
  std::vector<uint32_t> out;
  for (const auto& member : groups.members(group)) {
    EXPECT_EQ(member.group, group);
    out.push_back(member.qpn);
  }
  return out;
}

TEST(MulticastGroups, KnowsTheMembersOfEachGroup) {
  MulticastGroups groups;
  EXPECT_TRUE(groups.members(kV4).empty());
  for (const uint32_t qpn : {9u, 2u, 5u}) {
    EXPECT_TRUE(groups.join(kV4, qpn));
    EXPECT_TRUE(groups.join(kV6, qpn + 100));
  }
  EXPECT_TRUE(groups.join(kOther, 5));
  EXPECT_TRUE(groups.join(kV4, 5)) << "once more is no more";
  EXPECT_EQ(qpns(groups, kV4), (std::vector<uint32_t>{2, 5, 9}));
  EXPECT_EQ(qpns(groups, kV6), (std::vector<uint32_t>{102, 105, 109}));
  groups.leave(kV4, 5);
  groups.leave(kV4, 77);
  EXPECT_EQ(qpns(groups, kV4), (std::vector<uint32_t>{2, 9}));
  EXPECT_EQ(qpns(groups, kOther), (std::vector<uint32_t>{5}));
  groups.join(kV4, 5);
  groups.leave_all(5);
  EXPECT_EQ(qpns(groups, kV4), (std::vector<uint32_t>{2, 9}));
  EXPECT_TRUE(groups.members(kOther).empty());
}

TEST(MulticastGroups, HasABound) {
  MulticastGroups groups;
  for (uint32_t i = 0; i < MulticastGroups::kMaxMembers; ++i) ASSERT_TRUE(groups.join(kV4, i));
  EXPECT_FALSE(groups.join(kV6, 1));
  EXPECT_TRUE(groups.join(kV4, 7)) << "in it already";
  groups.leave(kV4, 0);
  EXPECT_TRUE(groups.join(kV6, 1));
}

TEST(Gid, KnowsMulticastGroups) {
  EXPECT_TRUE(kV4.is_multicast());
  EXPECT_TRUE(kV6.is_multicast());
  EXPECT_TRUE(Gid::from_ipv4(0xefffffff).is_multicast());
  EXPECT_FALSE(Gid::from_ipv4(0xdfffffff).is_multicast());
  EXPECT_FALSE(Gid::from_ipv4(0xf0000000).is_multicast());
  EXPECT_FALSE(Gid{}.is_multicast());
  Gid plain;
  plain.bytes[12] = 0xe0;
  EXPECT_FALSE(plain.is_multicast()) << "not IPv4-mapped";
}

}  // namespace
}  // namespace uroce::transport
