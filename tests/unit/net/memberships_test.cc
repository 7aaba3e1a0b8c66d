#include "net/memberships.h"

#include <gtest/gtest.h>

#include "addresses.h"
#include "frames.h"
#include "net/address.h"

namespace uroce::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const EthAddr kRouter{{0x02, 0, 0, 0, 0, 0xfe}};
constexpr uint64_t kSeed = 20261122;

const Gid kGroup = gid("239.1.2.3");
const Gid kOther = gid("239.1.2.4");
const Gid kGroup6 = gid("ff0e::1:2");
const Gid kRouter6 = gid("fe80::fe");

/// A port with 192.0.2.1 and its link-local address, and what it sent, as Ethernet destination and IP payload.
struct Link {
  explicit Link(uint16_t vlan = 0, std::size_t mtu = 1500)
      : memberships(kOurs, vlan, mtu, kSeed,
                    [this](std::span<const std::byte> frame) { sent.emplace_back(frame.begin(), frame.end()); }) {
    const std::vector<Gid> addresses{gid("192.0.2.1"), link_local(kOurs)};
    memberships.set_addresses(addresses, Nanos(0));
    settle(Nanos(0));
    sent.clear();
  }
  /// Until nothing is due any more; returns the time of the last thing done.
  Nanos settle(Nanos now) {
    while (memberships.next_deadline() != kNever) {
      now = std::max(now, memberships.next_deadline());
      memberships.poll(now);
    }
    return now;
  }
  bool receive(std::span<const std::byte> packet, Nanos now) {
    const bool ipv4 = load(packet) >> 4 == 4;
    const auto frame = make_ether(kOurs, kRouter, 0, ipv4 ? kEtherIpv4 : kEtherIpv6, packet);
    return memberships.on_frame(*parse_ether(frame), now);
  }
  static unsigned load(std::span<const std::byte> packet) { return static_cast<unsigned>(packet[0]); }
  /// The payload of each IP packet sent, in hexadecimal, without the checksum.
  std::vector<std::string> take() {
    std::vector<std::string> out;
    for (const auto& frame : sent) {
      const auto ether = parse_ether(frame).value();
      bool malformed = false;
      const auto ip =
          ether.type == kEtherIpv4 ? parse_ipv4(ether.payload, malformed) : parse_ipv6(ether.payload, malformed);
      EXPECT_TRUE(ip && ip->router_alert && ip->hop_limit == 1);
      std::string text = to_hex(ip->payload);
      out.push_back(to_text(ip->destination) + " " + text.substr(0, 4) + text.substr(8));
    }
    sent.clear();
    return out;
  }

  std::vector<std::vector<std::byte>> sent;
  Memberships memberships;
};

std::vector<std::byte> igmp(const char* to, std::string_view body) {
  return make_igmp(gid("192.0.2.254"), gid(to), from_hex(body));
}
std::vector<std::byte> mld(const char* to, std::string_view body) {
  return make_mld(kRouter6, gid(to), from_hex(body));
}

// Max response code 100: 10 s. Robustness 2, interval 125 s, no sources.
const std::string kQuery3 = "11640000 00000000 027d0000";
const std::string kQuery2 = "11640000 00000000";
const std::string kQuery1 = "11000000 00000000";
const std::string kMldQuery2 = "82000000 27100000 00000000000000000000000000000000 027d0000";
const std::string kMldQuery1 = "82000000 27100000 00000000000000000000000000000000";

const std::string kJoins =
    "224.0.0.22 220000000001"
    "04000000ef010203";
const std::string kLeaves =
    "224.0.0.22 220000000001"
    "03000000ef010203";
const std::string kIsIn =
    "224.0.0.22 220000000001"
    "02000000ef010203";

using Sent = std::vector<std::string>;

TEST(Igmp3, ReportsAJoinAndALeaveTwiceWithinASecond) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  EXPECT_EQ(link.memberships.next_deadline(), seconds(1));
  link.memberships.poll(seconds(1));
  EXPECT_EQ(link.take(), Sent{kJoins});
  EXPECT_GT(link.memberships.next_deadline(), seconds(1));
  EXPECT_LE(link.memberships.next_deadline(), seconds(2));
  link.settle(seconds(1));
  EXPECT_EQ(link.take(), Sent{kJoins});

  link.memberships.join(kGroup, seconds(5));  // a second user
  link.memberships.leave(kGroup, seconds(6));
  EXPECT_EQ(link.memberships.next_deadline(), kNever);
  link.memberships.leave(kGroup, seconds(7));
  link.memberships.poll(seconds(7));
  EXPECT_EQ(link.take(), Sent{kLeaves});
  link.settle(seconds(7));
  EXPECT_EQ(link.take(), Sent{kLeaves});
  EXPECT_EQ(link.memberships.counters().reports.get(), 4u + 2u) << "2 are those of the solicited-node group";
}

TEST(Igmp3, AChangeReplacesAPendingOne) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.memberships.poll(seconds(1));
  link.memberships.leave(kGroup, seconds(1));
  link.settle(seconds(1));
  EXPECT_EQ(link.take(), (Sent{kJoins, kLeaves, kLeaves}));
}

TEST(Igmp3, ChangesAtOnceShareAPacketAndManyDoNotOutgrowTheMtu) {
  Link link(0, 340);
  for (uint32_t i = 0; i < 100; ++i) link.memberships.join(Gid::from_ipv4(0xef000000 + i), seconds(1));
  link.memberships.poll(seconds(1));
  EXPECT_EQ(link.sent.size(), 3u);  // 38 records each
  for (const auto& frame : link.sent) EXPECT_LE(frame.size(), 340u + 14);
}

TEST(Igmp3, AnswersAGeneralQueryOnceWithinItsTime) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.memberships.join(kOther, seconds(1));
  link.settle(seconds(1));
  link.take();
  EXPECT_TRUE(link.receive(igmp("224.0.0.1", kQuery3), seconds(20)));
  const Nanos due = link.memberships.next_deadline();
  EXPECT_GT(due, seconds(20));
  EXPECT_LE(due, seconds(30));
  EXPECT_TRUE(link.receive(igmp("224.0.0.1", kQuery3), seconds(20)));
  EXPECT_LE(link.memberships.next_deadline(), due);
  link.settle(seconds(20));
  EXPECT_EQ(link.take(), Sent{"224.0.0.22 220000000002"
                              "02000000ef010203"
                              "02000000ef010204"});
  EXPECT_EQ(link.memberships.counters().queries.get(), 2u);
}

TEST(Igmp3, AnswersForTheGroupThatIsAskedFor) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.memberships.join(kOther, seconds(1));
  link.settle(seconds(1));
  link.take();
  link.receive(igmp("239.1.2.3", "110a0000 ef010203 027d0000"), seconds(20));
  link.settle(seconds(20));
  EXPECT_EQ(link.take(), Sent{kIsIn});
  link.receive(igmp("239.1.2.3", "110a0000 ef010203 027d0001 c0000263"), seconds(30));  // of one source
  EXPECT_LE(link.settle(seconds(30)), seconds(31));
  EXPECT_EQ(link.take(), Sent{kIsIn});
  link.receive(igmp("239.9.9.9", "110a0000 ef090909 027d0000"), seconds(40));  // not ours
  EXPECT_EQ(link.memberships.next_deadline(), kNever);
}

TEST(Igmp2, IsUsedWhileSuchAQuerierIsPresent) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.memberships.poll(seconds(1));
  link.take();
  link.receive(igmp("224.0.0.1", kQuery2), seconds(1));
  link.settle(seconds(1));
  EXPECT_EQ(link.take(), Sent{"239.1.2.3 1600ef010203"}) << "pending IGMPv3 reports are cancelled";
  link.memberships.join(kOther, seconds(20));
  EXPECT_LE(link.settle(seconds(20)), seconds(30));
  EXPECT_EQ(link.take(), (Sent{"239.1.2.4 1600ef010204", "239.1.2.4 1600ef010204"}));
  link.memberships.leave(kOther, seconds(40));
  link.settle(seconds(40));
  EXPECT_EQ(link.take(), Sent{"224.0.0.2 1700ef010204"});
  // 2 x 125 s and 10 s after the last query, the old querier counts as gone.
  link.memberships.join(kOther, seconds(1 + 260));
  link.settle(seconds(1 + 260));
  EXPECT_EQ(link.take().front(),
            "224.0.0.22 220000000001"
            "04000000ef010204");
}

TEST(Igmp2, AnotherHostsReportIsEnough) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.settle(seconds(1));
  link.take();
  link.receive(igmp("224.0.0.1", kQuery2), seconds(10));
  EXPECT_TRUE(link.receive(igmp("239.1.2.3", "16000000 ef010203"), seconds(10)));
  EXPECT_EQ(link.memberships.next_deadline(), kNever);
}

TEST(Igmp2, AReportInMldIsNoReport) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.settle(seconds(1));
  link.receive(igmp("224.0.0.1", kQuery2), seconds(10));
  EXPECT_TRUE(link.receive(mld("ff02::1", "83000000 00000000 00000000000000000000ffffef010203"), seconds(10)));
  EXPECT_EQ(link.memberships.counters().malformed.get(), 1u);
  EXPECT_NE(link.memberships.next_deadline(), kNever) << "the IPv4 group is still to be reported";
}

TEST(Igmp1, HasReportsButNoLeave) {
  Link link;
  link.receive(igmp("224.0.0.1", kQuery1), seconds(1));
  link.memberships.join(kGroup, seconds(1));
  link.settle(seconds(1));
  EXPECT_EQ(link.take(), (Sent{"239.1.2.3 1200ef010203", "239.1.2.3 1200ef010203"}));
  link.memberships.leave(kGroup, seconds(20));
  EXPECT_EQ(link.memberships.next_deadline(), kNever);
}

const std::string kGroup6Hex = "ff0e0000000000000000000000010002";

TEST(Mld2, ReportsJoinsAndLeavesAndAnswersQueries) {
  Link link;
  link.memberships.join(kGroup6, seconds(1));
  link.settle(seconds(1));
  const std::string joins =
      "ff02::16 8f0000000001"
      "04000000" +
      kGroup6Hex;
  EXPECT_EQ(link.take(), (Sent{joins, joins}));
  link.receive(mld("ff02::1", kMldQuery2), seconds(20));
  EXPECT_LE(link.settle(seconds(20)), seconds(30));
  // The solicited-node group of the link-local address as well.
  EXPECT_EQ(link.take(), Sent{"ff02::16 8f0000000002"
                              "02000000ff0200000000000000000001ff0000aa"
                              "02000000" +
                              kGroup6Hex});
  link.memberships.leave(kGroup6, seconds(40));
  link.settle(seconds(40));
  const std::string leaves =
      "ff02::16 8f0000000001"
      "03000000" +
      kGroup6Hex;
  EXPECT_EQ(link.take(), (Sent{leaves, leaves}));
}

TEST(Mld1, IsUsedWhileSuchAQuerierIsPresent) {
  Link link;
  link.memberships.join(kGroup6, seconds(1));
  link.settle(seconds(1));
  link.take();
  link.receive(mld("ff02::1", kMldQuery1), seconds(10));
  EXPECT_TRUE(link.receive(mld("ff02::1:ff00:aa", "83000000 00000000 ff0200000000000000000001ff0000aa"), seconds(10)));
  link.settle(seconds(10));
  EXPECT_EQ(link.take(), Sent{"ff0e::1:2 830000000000" + kGroup6Hex}) << "another host reported the other group";
  link.memberships.leave(kGroup6, seconds(40));
  link.settle(seconds(40));
  EXPECT_EQ(link.take(), Sent{"ff02::2 840000000000" + kGroup6Hex});
}

TEST(Memberships, AllSystemsAndLocalGroupsAreNotReported) {
  Link link;
  for (const char* group : {"224.0.0.1", "ff02::1", "ff01::5"}) link.memberships.join(gid(group), seconds(1));
  EXPECT_EQ(link.memberships.next_deadline(), kNever);
  EXPECT_EQ(link.memberships.ethernet_addresses().size(), 4u)
      << "they are received, and so is the solicited-node group";
  for (const char* group : {"224.0.0.1", "ff02::1", "ff01::5"}) link.memberships.leave(gid(group), seconds(2));
  EXPECT_EQ(link.memberships.next_deadline(), kNever);
}

TEST(Memberships, ReportAllGroupsAgainWhenTheLinkComesUp) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.settle(seconds(1));
  link.take();
  link.memberships.announce(seconds(9));
  link.memberships.poll(seconds(9));
  EXPECT_EQ(link.take(), (Sent{kJoins,
                               "ff02::16 8f0000000001"
                               "04000000ff0200000000000000000001ff0000aa"}));
}

TEST(Memberships, FollowOurAddresses) {
  Link link;
  const auto before = link.memberships.generation();
  const std::vector<Gid> addresses{gid("2001:db8::1:2"), gid("2001:db8:1::1:2"), link_local(kOurs)};
  link.memberships.set_addresses(addresses, seconds(1));
  link.memberships.poll(seconds(1));
  EXPECT_EQ(link.take(), Sent{"ff02::16 8f0000000001"
                              "04000000ff0200000000000000000001ff010002"});
  EXPECT_NE(link.memberships.generation(), before);
  link.memberships.join(kGroup, seconds(9));
  link.memberships.poll(seconds(9));
  ASSERT_FALSE(link.sent.empty());
  EXPECT_EQ(to_hex(std::span(link.sent.back()).subspan(14 + 12, 4)), "00000000") << "no IPv4 address to report from";
}

TEST(Memberships, KnowTheirEthernetAddresses) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.memberships.join(gid("224.1.2.3"), seconds(1));  // the same in its low 23 bits
  link.memberships.join(kGroup6, seconds(1));
  std::vector<std::string> texts;
  for (const EthAddr& mac : link.memberships.ethernet_addresses()) texts.push_back(to_text(mac));
  EXPECT_EQ(texts, (Sent{"01:00:5e:01:02:03", "33:33:00:01:00:02", "33:33:ff:00:00:aa"}));
}

TEST(Memberships, UseTheirVlan) {
  Link link(100);
  link.memberships.join(kGroup, seconds(1));
  link.memberships.poll(seconds(1));
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(to_hex(link.sent[0]).substr(0, 36), "01005e0000160200000000aa810000640800");
}

TEST(Memberships, AreBounded) {
  Link link;
  for (uint32_t i = 0; i < kMaxMemberships + 5; ++i) link.memberships.join(Gid::from_ipv4(0xef000000 + i), seconds(1));
  EXPECT_EQ(link.memberships.counters().full.get(), 6u) << "the solicited-node group takes one place";
  for (uint32_t i = 0; i < kMaxMemberships + 5; ++i) link.memberships.leave(Gid::from_ipv4(0xef000000 + i), seconds(2));
  link.settle(seconds(2));
  EXPECT_EQ(link.memberships.ethernet_addresses().size(), 1u);
}

TEST(Memberships, CountWhatIsMalformed) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.settle(seconds(1));
  link.take();
  const auto malformed = [&] { return link.memberships.counters().malformed.get(); };
  uint64_t expected = 0;
  const auto is_malformed = [&](const std::vector<std::byte>& packet, const char* why) {
    EXPECT_TRUE(link.receive(packet, seconds(9)));
    EXPECT_EQ(malformed(), ++expected) << why;
  };
  is_malformed(igmp("224.0.0.1", "11640000 000000"), "short");
  is_malformed(igmp("224.0.0.1", "11640000 00000000 0200"), "a length between versions");
  is_malformed(igmp("224.0.0.1", "11640000 00000000 027d0002 c0000201"), "more sources than bytes");
  is_malformed(igmp("224.0.0.5", kQuery3), "a general query not to all systems");
  is_malformed(igmp("192.0.2.7", "11640000 c0000207 027d0000"), "no group");
  is_malformed(igmp("239.1.2.3", "16000000 c0000207"), "a report of no group");
  auto damaged = igmp("224.0.0.1", kQuery3);
  damaged.back() ^= std::byte{1};
  is_malformed(damaged, "checksum");
  is_malformed(mld("ff02::1", kMldQuery2.substr(0, 40)), "short");
  is_malformed(mld("ff02::1", kMldQuery1 + "00"), "a length between versions");
  is_malformed(mld("ff02::5", kMldQuery2), "a general query not to all nodes");
  is_malformed(make_mld(gid("2001:db8::5"), gid("ff02::1"), from_hex(kMldQuery2)), "not from the link");
  is_malformed(make_icmpv6(kRouter6, gid("ff02::1"), 1, from_hex(kMldQuery2)), "no router alert");
  auto forwarded = mld("ff02::1", kMldQuery2);
  forwarded[7] = std::byte{64};
  is_malformed(forwarded, "hop limit");
  EXPECT_EQ(link.memberships.next_deadline(), kNever);
  EXPECT_TRUE(link.receive(igmp("224.0.0.22", "22000000 00000000"), seconds(9)));
  EXPECT_TRUE(link.receive(igmp("224.0.0.2", "17000000 ef010203"), seconds(9)));
  EXPECT_EQ(link.memberships.counters().ignored.get(), 2u);
  EXPECT_FALSE(
      link.receive(make_icmpv4(gid("192.0.2.254"), gid("192.0.2.1"), from_hex("0800000000010002")), seconds(9)));
  EXPECT_FALSE(link.receive(make_icmpv6(kRouter6, gid("ff02::1"), 255, from_hex("8000000000010002")), seconds(9)));
}

TEST(Memberships, LongResponseTimesAreFloatingPoint) {
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.memberships.join(kGroup6, seconds(1));
  link.settle(seconds(1));
  // 0xff: (15 | 16) << 10 tenths of a second, 53 minutes. The response comes within an hour.
  link.receive(igmp("224.0.0.1", "11ff0000 00000000 027d0000"), seconds(10));
  link.receive(mld("ff02::1", "82000000 ffff0000 00000000000000000000000000000000 027d0000"), seconds(10));
  EXPECT_LE(link.settle(seconds(10)), seconds(10) + milliseconds(8388000));
}

TEST(Memberships, SurviveDamage) {
  Random random(kSeed);
  Link link;
  link.memberships.join(kGroup, seconds(1));
  link.memberships.join(kGroup6, seconds(1));
  const std::vector<std::vector<std::byte>> good{igmp("224.0.0.1", kQuery3), igmp("224.0.0.1", kQuery2),
                                                 mld("ff02::1", kMldQuery2), mld("ff02::1", kMldQuery1)};
  for (int i = 0; i < 100000; ++i) {
    auto packet = good[random.below(good.size())];
    for (uint64_t n = random.below(3); n > 0; --n)
      packet[random.below(packet.size())] = static_cast<std::byte>(random.next());
    packet.resize(1 + random.below(packet.size()));
    link.receive(packet, seconds(2) + milliseconds(i));
    link.memberships.poll(seconds(2) + milliseconds(i));
    link.sent.clear();
  }
  EXPECT_GT(link.memberships.counters().queries.get(), 300u);
}

}  // namespace
}  // namespace uroce::net
