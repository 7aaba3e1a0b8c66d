#include "net/neighbours.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "addresses.h"
#include "base/random.h"
#include "frames.h"
#include "wire/packet.h"

namespace uroce::net {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const EthAddr kPeer{{0x02, 0, 0, 0, 0, 0xbb}};

/// A Neighbours with 192.0.2.1/24, 2001:db8::1/64 and its link-local address, and what it sent.
struct NeighbourLink {
  explicit NeighbourLink(uint16_t vlan = 0)
      : neighbours(kOurs, vlan,
                   AddressTable({parse_interface_address("192.0.2.1/24").value(),
                                 parse_interface_address("2001:db8::1/64").value(),
                                 {link_local(kOurs), 64}},
                                {}),
                   [this](std::span<const std::byte> frame) { sent.push_back(to_hex(frame)); }) {}

  void receive(std::string_view hex, Nanos now = Nanos(0)) { neighbours.on_frame(from_hex(hex), now); }
  void receive(std::span<const std::byte> frame, Nanos now = Nanos(0)) { neighbours.on_frame(frame, now); }
  std::string take() {
    std::string last = sent.empty() ? "" : sent.back();
    sent.clear();
    return last;
  }

  std::vector<std::string> sent;
  Neighbours neighbours;
};

// Who has 192.0.2.1? Tell 192.0.2.2.
const std::string kArpRequest =
    "ffffffffffff0200000000bb0806"
    "0001080006040001"
    "0200000000bbc0000202"
    "000000000000c0000201";
const std::string kArpReplyToPeer =
    "0200000000bb0200000000aa0806"
    "0001080006040002"
    "0200000000aac0000201"
    "0200000000bbc0000202";
const std::string kArpAnswerFromPeer =
    "0200000000aa0200000000bb0806"
    "0001080006040002"
    "0200000000bbc0000202"
    "0200000000aac0000201";

TEST(Arp, AnswersForOurAddressAndLearnsTheSender) {
  NeighbourLink link;
  link.receive(kArpRequest);
  EXPECT_EQ(link.take(), kArpReplyToPeer);
  EXPECT_EQ(link.neighbours.lookup(gid("192.0.2.2")), kPeer);
  EXPECT_EQ(link.neighbours.counters().answered.get(), 1u);
}

TEST(Arp, AnswersAProbeWithoutLearning) {
  NeighbourLink link;
  link.receive(
      "ffffffffffff0200000000bb0806"
      "0001080006040001"
      "0200000000bb00000000"
      "000000000000c0000201");
  EXPECT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(link.neighbours.lookup(Gid::from_ipv4(0)), std::nullopt);
}

TEST(Arp, IgnoresPacketsBetweenOthers) {
  NeighbourLink link;
  link.receive(
      "ffffffffffff0200000000bb0806"
      "0001080006040001"
      "0200000000bbc0000202"
      "000000000000c0000203");
  EXPECT_TRUE(link.sent.empty());
  EXPECT_EQ(link.neighbours.lookup(gid("192.0.2.2")), std::nullopt);
  EXPECT_EQ(link.neighbours.counters().not_for_us.get(), 1u);
}

TEST(Arp, IgnoresUnrequestedAnswers) {
  NeighbourLink link;
  link.receive(kArpAnswerFromPeer);
  EXPECT_EQ(link.neighbours.lookup(gid("192.0.2.2")), std::nullopt);
}

TEST(Arp, ReportsAChangeOnce) {
  NeighbourLink link;
  link.receive(kArpRequest);
  auto changes = link.neighbours.take_changes();
  ASSERT_EQ(changes.size(), 1u);
  EXPECT_EQ(changes[0].gid, gid("192.0.2.2"));
  EXPECT_EQ(changes[0].mac, kPeer);
  link.receive(kArpRequest);
  EXPECT_TRUE(link.neighbours.take_changes().empty()) << "the address did not change";
  // A neighbour that failed and is reachable again is reported, because routes may wait for it.
  link.neighbours.poll(kReachableTime);
  for (int i = 1; i <= kResolveTries; ++i) link.neighbours.poll(kReachableTime + i * kResolveInterval);
  EXPECT_TRUE(link.neighbours.take_changes().empty());
  link.receive(kArpRequest, seconds(99));
  EXPECT_EQ(link.neighbours.take_changes().size(), 1u);
}

TEST(Neighbours, NewAddressesTakeEffectAtOnce) {
  NeighbourLink link;
  link.receive(kArpRequest);
  link.take();
  link.neighbours.set_table(AddressTable({parse_interface_address("192.0.2.2/24").value()}, {}), Nanos(0));
  EXPECT_EQ(link.neighbours.lookup(gid("192.0.2.2")), kOurs) << "it is not a neighbour any more";
  EXPECT_TRUE(link.neighbours.take_changes().empty());
  EXPECT_EQ(link.neighbours.lookup(gid("192.0.2.1")), std::nullopt);
  link.neighbours.announce(seconds(1));
  EXPECT_EQ(link.sent.size(), 2u);
}

TEST(Neighbours, ANewGatewayIsResolvedAndReported) {
  NeighbourLink link(100);
  const AddressTable table({parse_interface_address("192.0.2.1/24").value()}, {gid("192.0.2.2")});
  link.neighbours.set_table(table, seconds(1));
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(link.sent[0].substr(24),
            "8100006408060001080006040001"
            "0200000000aac0000201"
            "000000000000c0000202");
  EXPECT_EQ(link.neighbours.table().next_hop(gid("198.51.100.7")), gid("192.0.2.2"));
  EXPECT_TRUE(link.neighbours.take_changes().empty());
  link.receive(kArpAnswerFromPeer.substr(0, 24) + "81000064" + kArpAnswerFromPeer.substr(24), seconds(1));
  EXPECT_EQ(link.neighbours.take_changes().size(), 1u);
  link.neighbours.set_table(table, seconds(2));
  EXPECT_EQ(link.neighbours.take_changes().size(), 1u) << "it is known already: routes by the old gateway must change";
}

// 02:00:00:00:00:cc claims to be 192.0.2.2.
const std::string kClaim =
    "ffffffffffff0200000000cc0806"
    "0001080006040001"
    "0200000000ccc0000202"
    "000000000000c0000202";
// The question to the host that had the address before.
const std::string kAskOldOne =
    "0200000000bb0200000000aa0806"
    "0001080006040001"
    "0200000000aac0000201"
    "000000000000c0000202";

TEST(Arp, FollowsAGratuitousUpdateOfANeighbourThatIsSilentAtItsOldAddress) {
  NeighbourLink link;
  link.receive(kArpRequest);
  link.take();
  link.receive(kClaim, seconds(1));
  EXPECT_EQ(link.neighbours.next_deadline(), seconds(1));
  link.neighbours.poll(seconds(1));
  EXPECT_EQ(link.take(), kAskOldOne);
  EXPECT_EQ(link.neighbours.lookup(gid("192.0.2.2")), kPeer);
  EXPECT_EQ(link.neighbours.next_deadline(), seconds(1) + kClaimInterval);
  link.neighbours.poll(seconds(1) + kClaimInterval);
  EXPECT_EQ(link.take(), kAskOldOne) << "the first question may be lost";
  link.neighbours.poll(seconds(1) + 2 * kClaimInterval);
  EXPECT_TRUE(link.sent.empty());
  EXPECT_EQ(to_text(*link.neighbours.lookup(gid("192.0.2.2"))), "02:00:00:00:00:cc");
  EXPECT_EQ(link.neighbours.counters().learned.get(), 2u);
}

// A stranger on the link sends each kind of ARP packet that names its own Ethernet address for the peer's.
TEST(Arp, AStrangerDoesNotGetThePacketsOfAPeerThatAnswers) {
  const std::string forged_reply =
      "0200000000aa0200000000cc0806"
      "0001080006040002"
      "0200000000ccc0000202"
      "0200000000aac0000201";
  const std::string forged_request =
      "ffffffffffff0200000000cc0806"
      "0001080006040001"
      "0200000000ccc0000202"
      "000000000000c0000201";
  for (const std::string& forged : {kClaim, forged_reply, forged_request}) {
    NeighbourLink link;
    link.receive(kArpRequest);
    link.neighbours.take_changes();
    link.take();
    std::size_t asked = 0;
    for (Nanos now = seconds(1); now < seconds(21); now += milliseconds(10)) {
      link.receive(forged, now);
      link.neighbours.poll(now);
      const std::size_t questions = static_cast<std::size_t>(std::ranges::count(link.sent, kAskOldOne));
      link.sent.clear();
      if (questions != 0) link.receive(kArpAnswerFromPeer, now + milliseconds(1));
      asked += questions;
      link.neighbours.poll(now + milliseconds(2));
      ASSERT_EQ(link.neighbours.lookup(gid("192.0.2.2")), kPeer);
    }
    EXPECT_TRUE(link.neighbours.take_changes().empty());
    EXPECT_LE(asked, 5u) << "2,000 claims cause few questions";
    EXPECT_EQ(link.neighbours.counters().claims.get(), 2000u);
  }
}

TEST(Arp, TheNewestOfTwoClaimsCounts) {
  NeighbourLink link;
  link.receive(kArpRequest);
  link.receive(kClaim, seconds(1));
  std::string moved = kClaim;
  for (std::size_t at = 0; (at = moved.find("00cc", at)) != std::string::npos;) moved.replace(at, 4, "00dd");
  link.receive(moved, seconds(1) + milliseconds(1));
  for (int i = 0; i <= kClaimTries; ++i) link.neighbours.poll(seconds(2) + i * kClaimInterval);
  EXPECT_EQ(to_text(*link.neighbours.lookup(gid("192.0.2.2"))), "02:00:00:00:00:dd");
}

TEST(Arp, ResolvesWithThreeTriesASecondApart) {
  NeighbourLink link;
  const Gid peer = gid("192.0.2.2");
  link.neighbours.request(peer, seconds(10));
  EXPECT_EQ(link.take(),
            "ffffffffffff0200000000aa0806"
            "0001080006040001"
            "0200000000aac0000201"
            "000000000000c0000202");
  EXPECT_EQ(link.neighbours.state(peer), NeighbourState::resolving);
  link.neighbours.request(peer, seconds(10));  // under way
  link.neighbours.poll(seconds(10) + milliseconds(999));
  EXPECT_TRUE(link.sent.empty());
  EXPECT_EQ(link.neighbours.next_deadline(), seconds(11));
  link.neighbours.poll(seconds(11));
  link.neighbours.poll(seconds(12));
  EXPECT_EQ(link.sent.size(), 2u);
  link.neighbours.poll(seconds(13));
  EXPECT_EQ(link.sent.size(), 2u);
  EXPECT_EQ(link.neighbours.state(peer), NeighbourState::failed);
  EXPECT_EQ(link.neighbours.counters().failed.get(), 1u);
  EXPECT_EQ(link.neighbours.next_deadline(), kNever);

  link.neighbours.request(peer, seconds(20));  // a failed one may be tried again
  EXPECT_EQ(link.neighbours.state(peer), NeighbourState::resolving);
  link.receive(kArpAnswerFromPeer, seconds(20));
  EXPECT_EQ(link.neighbours.state(peer), NeighbourState::reachable);
  EXPECT_EQ(link.neighbours.lookup(peer), kPeer);
}

TEST(Arp, KeepsAnAgedEntryInUseWhileItAsksAgain) {
  NeighbourLink link;
  const Gid peer = gid("192.0.2.2");
  link.receive(kArpRequest, Nanos(0));
  link.take();
  link.neighbours.poll(kReachableTime - Nanos(1));
  EXPECT_TRUE(link.sent.empty());
  link.neighbours.poll(kReachableTime);
  EXPECT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(link.neighbours.lookup(peer), kPeer);
  for (int i = 1; i <= kResolveTries; ++i) link.neighbours.poll(kReachableTime + i * kResolveInterval);
  EXPECT_EQ(link.neighbours.lookup(peer), std::nullopt);
  EXPECT_EQ(link.neighbours.state(peer), NeighbourState::failed);
}

TEST(Arp, CountsMalformed) {
  NeighbourLink link;
  const auto good = from_hex(kArpRequest);
  for (std::size_t n = 0; n < good.size(); ++n) link.receive(std::span(good).first(n));
  EXPECT_EQ(link.neighbours.counters().malformed.get(), good.size());
  for (const std::size_t field : {15u, 16u, 18u, 19u, 21u}) {  // hardware, protocol, lengths, operation
    auto bad = good;
    bad[field] = std::byte{7};
    link.receive(bad);
  }
  EXPECT_EQ(link.neighbours.counters().malformed.get(), good.size() + 5);
  link.receive(
      "ffffffffffff0300000000bb0806"
      "0001080006040001"
      "0300000000bbc0000202"
      "000000000000c0000201");
  EXPECT_EQ(link.neighbours.counters().malformed.get(), good.size() + 6) << "a multicast source";
  EXPECT_TRUE(link.sent.empty());
}

TEST(Arp, DropsEthernetAddressesOfNoOtherHost) {
  NeighbourLink link;
  for (const char* sender : {"ffffffffffff", "0300000000bb", "000000000000", "0200000000aa"}) {
    link.receive("0200000000aa0200000000bb0806 0001080006040001" + std::string(sender) +
                 "c0000202000000000000c0000201");
    EXPECT_TRUE(link.sent.empty()) << sender << " would get the answer";
    EXPECT_EQ(link.neighbours.lookup(gid("192.0.2.2")), std::nullopt);
  }
  link.receive("0200000000aa0000000000000806 0001080006040001 0200000000bb c0000202000000000000c0000201");
  EXPECT_TRUE(link.sent.empty()) << "a frame from nobody";
  EXPECT_EQ(link.neighbours.counters().malformed.get(), 5u);
}

TEST(Arp, UsesItsVlanOnly) {
  NeighbourLink link(100);
  link.receive(kArpRequest);
  EXPECT_TRUE(link.sent.empty());
  const std::string tagged = kArpRequest.substr(0, 24) + "8100a064" + kArpRequest.substr(24);
  link.receive(tagged);
  EXPECT_EQ(link.take(), kArpReplyToPeer.substr(0, 24) + "81000064" + kArpReplyToPeer.substr(24));
  NeighbourLink untagged;
  untagged.receive(tagged);
  EXPECT_TRUE(untagged.sent.empty());
  untagged.receive(kArpRequest.substr(0, 24) + "8100a000" + kArpRequest.substr(24));  // a priority tag
  EXPECT_EQ(untagged.sent.size(), 1u);
}

TEST(Arp, BoundsItsTable) {
  NeighbourLink link;
  for (uint32_t i = 0; i < kMaxNeighbours + 10; ++i) link.neighbours.request(Gid::from_ipv4(0xc0000300 + i), Nanos(i));
  EXPECT_EQ(link.neighbours.counters().table_full.get(), 10u) << "the oldest gave way";
  EXPECT_EQ(link.neighbours.state(Gid::from_ipv4(0xc0000309)), NeighbourState::unknown);
  EXPECT_EQ(link.neighbours.state(Gid::from_ipv4(0xc000030a)), NeighbourState::resolving);
  for (int i = 1; i <= kResolveTries; ++i) link.neighbours.poll(seconds(i) + milliseconds(1));
  link.receive(kArpRequest, seconds(9));
  EXPECT_EQ(link.neighbours.lookup(gid("192.0.2.2")), kPeer);
  EXPECT_EQ(link.neighbours.state(Gid::from_ipv4(0xc000030a)), NeighbourState::unknown) << "the oldest was replaced";
}

/// A user who asks for addresses that nobody answers.
struct SilentFlood {
  NeighbourLink& link;
  uint32_t user;
  uint32_t next = 0xc0000300 + (user << 16);
  /// The number of requests that went out.
  std::size_t ask(std::size_t count, Nanos now) {
    const std::size_t before = link.sent.size();
    while (count-- > 0) link.neighbours.request(Gid::from_ipv4(next++), now, user);
    return link.sent.size() - before;
  }
};

TEST(Neighbours, AUserResolvesSoManyAtATime) {
  NeighbourLink link;
  SilentFlood flood{link, 1};
  for (int step = 0; step < 60; ++step) {  // 6 s
    const Nanos now = step * milliseconds(100);
    flood.ask(1000, now);
    link.neighbours.poll(now);
  }
  EXPECT_LE(link.sent.size(), 8 * kMaxPendingOfUser) << "one request a second for each address";
  EXPECT_GT(link.neighbours.counters().deferred.get(), 0u);
  EXPECT_EQ(link.neighbours.counters().table_full.get(), 0u);

  const Gid peer = gid("192.0.2.2");
  EXPECT_FALSE(link.neighbours.request(peer, seconds(6), 1)) << "the user waits for its turn";
  EXPECT_EQ(link.neighbours.state(peer), NeighbourState::unknown);
  EXPECT_TRUE(link.neighbours.request(peer, seconds(6), 0)) << "others do not";
  EXPECT_TRUE(link.neighbours.request(gid("192.0.2.3"), seconds(6))) << "nor does the process itself";
}

TEST(Neighbours, AnAnswerOrAFailureMakesRoomForTheUser) {
  NeighbourLink link;
  SilentFlood flood{link, 1};
  const Gid peer = gid("192.0.2.2");
  EXPECT_TRUE(link.neighbours.request(peer, Nanos(0), 1));
  EXPECT_EQ(flood.ask(kMaxPendingOfUser, Nanos(0)), kMaxPendingOfUser - 1);
  link.receive(kArpAnswerFromPeer);
  EXPECT_EQ(link.neighbours.lookup(peer), kPeer);
  EXPECT_EQ(flood.ask(10, Nanos(0)), 1u);
  EXPECT_TRUE(link.neighbours.request(peer, Nanos(0), 1)) << "what is known takes no turn";
  for (int i = 1; i <= kResolveTries; ++i) link.neighbours.poll(seconds(i) + milliseconds(1));
  EXPECT_EQ(flood.ask(1000, seconds(4)), kMaxPendingOfUser);
  // A known address that is resolved again is not counted.
  link.neighbours.poll(kReachableTime + seconds(1));
  EXPECT_EQ(link.neighbours.state(peer), NeighbourState::resolving);
  link.receive(kArpAnswerFromPeer, kReachableTime + seconds(1));
  EXPECT_EQ(link.neighbours.state(peer), NeighbourState::reachable);
}

// Many users filled the table with silent addresses, and root could not resolve a live peer.
TEST(Neighbours, AFullTableTakesFromTheUserWithMost) {
  NeighbourLink link;
  const Gid peer = gid("192.0.2.2");
  SilentFlood few{link, 100};
  few.ask(kMaxPendingOfUser / 2, Nanos(0));
  for (uint32_t user = 1; user <= kMaxNeighbours / kMaxPendingOfUser; ++user) {
    SilentFlood{link, user}.ask(kMaxPendingOfUser, Nanos(user));
  }
  EXPECT_TRUE(link.neighbours.request(peer, Nanos(100), 0));
  link.receive(kArpAnswerFromPeer, Nanos(200));
  EXPECT_EQ(link.neighbours.lookup(peer), kPeer);
  EXPECT_EQ(few.ask(1, Nanos(300)), 1u);
  EXPECT_EQ(link.neighbours.lookup(peer), kPeer) << "it stays while the flood goes on";
  for (uint32_t i = 0; i < kMaxPendingOfUser / 2; ++i) {
    EXPECT_EQ(link.neighbours.state(Gid::from_ipv4(0xc0000300 + (100u << 16) + i)), NeighbourState::resolving);
  }
}

const std::string kGratuitous =
    "ffffffffffff0200000000aa0806"
    "0001080006040001"
    "0200000000aac0000201"
    "000000000000c0000201";

TEST(Announce, ProbesEveryAddressAndAnnouncesItTwice) {
  NeighbourLink link;
  link.neighbours.announce(seconds(1));
  ASSERT_EQ(link.sent.size(), 6u);
  EXPECT_EQ(link.sent[0],
            "ffffffffffff0200000000aa0806"
            "0001080006040001"
            "0200000000aa00000000"
            "000000000000c0000201");
  EXPECT_EQ(link.sent[1], kGratuitous);
  // A solicitation from :: to the solicited-node group, without a source option.
  EXPECT_EQ(link.sent[2].substr(0, 28), "3333ff0000010200000000aa86dd");
  EXPECT_EQ(link.sent[2].substr(44, 32), std::string(32, '0'));
  EXPECT_EQ(link.sent[2].substr(108, 4), "8700");
  EXPECT_EQ(link.sent[2].substr(116), "0000000020010db8000000000000000000000001");
  EXPECT_EQ(link.sent[3].substr(0, 28), "3333000000010200000000aa86dd");
  // ff02::1, type 136, override but not solicited, target 2001:db8::1, option 2 with our MAC.
  EXPECT_EQ(link.sent[3].substr(76, 32), "ff020000000000000000000000000001");
  EXPECT_EQ(link.sent[3].substr(108, 4), "8800");
  EXPECT_EQ(link.sent[3].substr(116), "2000000020010db800000000000000000000000102010200000000aa");
  link.sent.clear();
  EXPECT_EQ(link.neighbours.next_deadline(), seconds(3));
  link.neighbours.poll(seconds(3));
  ASSERT_EQ(link.sent.size(), 3u);
  EXPECT_EQ(link.sent[0], kGratuitous);
  EXPECT_EQ(link.neighbours.next_deadline(), kNever);
}

TEST(Conflict, IsReportedAndDefendedAtALimitedRate) {
  NeighbourLink link;
  const std::string claim =
      "ffffffffffff0200000000cc0806"
      "0001080006040002"
      "0200000000ccc0000201"
      "0200000000ccc0000201";
  link.receive(claim, seconds(1));
  EXPECT_EQ(link.take(), kGratuitous);
  const auto conflicts = link.neighbours.take_conflicts();
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(to_text(conflicts[0].gid) + " " + to_text(conflicts[0].mac), "192.0.2.1 02:00:00:00:00:cc");
  link.receive(claim, seconds(2));
  EXPECT_TRUE(link.sent.empty());
  EXPECT_TRUE(link.neighbours.take_conflicts().empty());
  EXPECT_EQ(link.neighbours.counters().conflicts.get(), 2u);
  link.receive(claim, seconds(1) + kDefendInterval);
  EXPECT_EQ(link.neighbours.take_conflicts().size(), 1u);
  EXPECT_EQ(link.neighbours.lookup(gid("192.0.2.1")), kOurs) << "our own address is never learned";
}

/// An ICMPv6 message from the peer in a frame to `to`.
std::vector<std::byte> from_peer(const EthAddr& to, const char* source, const char* destination, std::string_view body,
                                 uint8_t hop_limit = 255) {
  return make_ether(to, kPeer, 0, kEtherIpv6, make_icmpv6(gid(source), gid(destination), hop_limit, from_hex(body)));
}

const std::string kSolicitBody = "87000000 00000000 20010db8000000000000000000000001 0101 0200000000bb";
const EthAddr kGroupMac = wire::multicast_mac(solicited_node(gid("2001:db8::1")));

TEST(Nd, AnswersASolicitation) {
  NeighbourLink link;
  link.receive(from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1", kSolicitBody));
  ASSERT_EQ(link.sent.size(), 1u);
  const auto frame = from_hex(link.sent[0]);
  bool malformed = false;
  const auto icmp = parse_icmpv6(std::span(frame).subspan(14), malformed);
  ASSERT_TRUE(icmp) << "its checksum is right";
  EXPECT_EQ(icmp->hop_limit, 255);
  EXPECT_EQ(to_text(icmp->source), "2001:db8::1");
  EXPECT_EQ(to_text(icmp->destination), "2001:db8::2");
  EXPECT_EQ(link.sent[0].substr(0, 12), "0200000000bb");
  EXPECT_EQ(link.sent[0].substr(116, 2), "60") << "solicited and override";
  EXPECT_EQ(link.neighbours.lookup(gid("2001:db8::2")), kPeer);
}

TEST(Nd, DefendsAgainstADuplicateAddress) {
  NeighbourLink link;
  const auto probe = from_peer(kGroupMac, "::", "ff02::1:ff00:1", kSolicitBody.substr(0, kSolicitBody.size() - 18));
  link.receive(probe);
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(link.sent[0].substr(0, 12), "333300000001");
  EXPECT_EQ(link.sent[0].substr(116, 2), "20") << "not solicited";
}

TEST(Nd, DropsWhatTheStandardForbids) {
  NeighbourLink link;
  const auto malformed = [&] { return link.neighbours.counters().malformed.get(); };
  link.receive(from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1", kSolicitBody, 254));
  EXPECT_EQ(malformed(), 1u) << "forwarded by a router";
  link.receive(from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1", "87010000" + kSolicitBody.substr(8)));
  EXPECT_EQ(malformed(), 2u) << "code";
  link.receive(from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1",
                         "87000000 00000000 ff020000000000000000000000000001 0101 0200000000bb"));
  EXPECT_EQ(malformed(), 3u) << "a multicast target";
  link.receive(from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1",
                         "87000000 00000000 20010db8000000000000000000000001 0100 0200000000bb"));
  EXPECT_EQ(malformed(), 4u) << "an option of length 0";
  link.receive(from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1",
                         "87000000 00000000 20010db8000000000000000000000001 0102 0200000000bb"));
  EXPECT_EQ(malformed(), 5u) << "an option longer than the packet";
  link.receive(from_peer(kGroupMac, "::", "ff02::1:ff00:1", kSolicitBody));
  EXPECT_EQ(malformed(), 6u) << "a probe with a source option";
  link.receive(from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1", "87000000 00000000 20010db80000000000000000"));
  EXPECT_EQ(malformed(), 7u) << "short";
  EXPECT_TRUE(link.sent.empty());
}

TEST(Nd, DropsEthernetAddressesOfNoOtherHost) {
  NeighbourLink link;
  for (const char* mac : {"ffffffffffff", "333300000001", "000000000000", "0200000000aa"}) {
    link.receive(from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1",
                           "87000000 00000000 20010db8000000000000000000000001 0101" + std::string(mac)));
    EXPECT_TRUE(link.sent.empty()) << mac << " would get the answer";
  }
  EXPECT_EQ(link.neighbours.counters().malformed.get(), 4u);
  link.receive(from_peer(kOurs, "2001:db8::2", "2001:db8::1",
                         "88000000 20000000 20010db8000000000000000000000001 0201 ffffffffffff"));
  EXPECT_TRUE(link.neighbours.take_conflicts().empty()) << "a group has no addresses";
}

TEST(Nd, DropsAddressesThatNoPacketMayCarry) {
  NeighbourLink link;
  link.receive(from_peer(kGroupMac, "ff02::1", "ff02::1:ff00:1", kSolicitBody));
  EXPECT_EQ(link.neighbours.lookup(gid("ff02::1")), std::nullopt);
  const auto solicit = from_hex(kSolicitBody);
  const Gid ours = gid("2001:db8::1"), peer4 = gid("192.0.2.2"), ours4 = gid("192.0.2.1");
  const auto receive = [&](const Gid& source, const Gid& destination, std::vector<std::byte> message) {
    link.receive(make_ether(kOurs, kPeer, 0, kEtherIpv6, make_icmpv6(source, destination, 255, std::move(message))));
  };
  receive(peer4, ours, solicit);
  EXPECT_EQ(link.neighbours.lookup(peer4), std::nullopt) << "ARP resolves IPv4 addresses";
  auto asks_for_ipv4 = solicit;
  std::ranges::copy(std::as_bytes(std::span(ours4.bytes)), asks_for_ipv4.begin() + 8);
  receive(gid("2001:db8::2"), ours, asks_for_ipv4);
  receive(gid("2001:db8::2"), ours4, from_hex("80000000 00010002 6869"));
  EXPECT_TRUE(link.sent.empty());
  EXPECT_EQ(link.neighbours.counters().malformed.get(), 4u);
}

TEST(Nd, ResolvesThroughTheSolicitedNodeGroup) {
  NeighbourLink link;
  const Gid peer = gid("2001:db8::2");
  link.neighbours.request(peer, Nanos(0));
  ASSERT_EQ(link.sent.size(), 1u);
  EXPECT_EQ(link.sent[0].substr(0, 28), "3333ff0000020200000000aa86dd");
  EXPECT_EQ(link.sent[0].substr(76, 32), "ff0200000000000000000001ff000002");
  const std::string advertise = "88000000 60000000 20010db8000000000000000000000002 0201 0200000000bb";
  link.receive(from_peer(kOurs, "2001:db8::2", "2001:db8::1", advertise));
  EXPECT_EQ(link.neighbours.lookup(peer), kPeer);
  // Without the override flag, a known address does not change (RFC 4861, 7.2.5).
  const std::string other = "88000000 40000000 20010db8000000000000000000000002 0201 0200000000cc";
  link.receive(from_peer(kOurs, "2001:db8::2", "2001:db8::1", other));
  EXPECT_EQ(link.neighbours.lookup(peer), kPeer);
  EXPECT_EQ(link.neighbours.take_changes().size(), 1u);
  // An unsolicited one with the flag changes the address (7.2.6).
  const std::string moved = "88000000 20000000 20010db8000000000000000000000002 0201 0200000000cc";
  link.receive(from_peer(kOurs, "2001:db8::2", "ff02::1", moved));
  // But only where the old one is silent.
  link.neighbours.poll(Nanos(0));
  ASSERT_EQ(link.sent.size(), 2u);
  EXPECT_EQ(link.sent[1].substr(0, 28), "0200000000bb0200000000aa86dd");
  EXPECT_EQ(link.sent[1].substr(76, 32), "20010db8000000000000000000000002");
  EXPECT_EQ(link.neighbours.lookup(peer), kPeer);
  for (int i = 1; i <= kClaimTries; ++i) link.neighbours.poll(i * kClaimInterval);
  EXPECT_EQ(to_text(*link.neighbours.lookup(peer)), "02:00:00:00:00:cc");
  EXPECT_EQ(link.neighbours.take_changes().size(), 1u);
  // Another host claims our address.
  const std::string ours = "88000000 20000000 20010db8000000000000000000000001 0201 0200000000cc";
  link.receive(from_peer(kOurs, "2001:db8::1", "ff02::1", ours));
  EXPECT_EQ(link.neighbours.counters().conflicts.get(), 1u);
  // This one was not requested.
  const std::string stranger = "88000000 60000000 20010db8000000000000000000000003 0201 0200000000bb";
  link.receive(from_peer(kOurs, "2001:db8::3", "2001:db8::1", stranger));
  EXPECT_EQ(link.neighbours.lookup(gid("2001:db8::3")), std::nullopt);
}

TEST(Echo, AnswersIpv4) {
  NeighbourLink link;
  const auto request = make_icmpv4(gid("192.0.2.2"), gid("192.0.2.1"), from_hex("08000000 00010002 68656c6c6f"));
  link.receive(make_ether(kOurs, kPeer, 0, kEtherIpv4, request));
  const auto reply = make_icmpv4(gid("192.0.2.1"), gid("192.0.2.2"), from_hex("00000000 00010002 68656c6c6f"));
  EXPECT_EQ(link.take(), to_hex(make_ether(kPeer, kOurs, 0, kEtherIpv4, reply)));
  // No reply to a broadcast, and none for other addresses.
  link.receive(make_ether(kBroadcastMac, kPeer, 0, kEtherIpv4, request));
  link.receive(make_ether(kOurs, kPeer, 0, kEtherIpv4,
                          make_icmpv4(gid("192.0.2.2"), gid("192.0.2.3"), from_hex("0800000000010002"))));
  link.receive(make_ether(kOurs, kPeer, 0, kEtherIpv4,
                          make_icmpv4(gid("224.0.0.9"), gid("192.0.2.1"), from_hex("0800000000010002"))));
  link.receive(make_ether(kOurs, kPeer, 0, kEtherIpv4,
                          make_icmpv4(gid("192.0.2.2"), gid("192.0.2.1"), from_hex("0000000000010002"))));
  EXPECT_TRUE(link.sent.empty());
  EXPECT_EQ(link.neighbours.counters().not_for_us.get(), 4u);
}

TEST(Echo, AnswersIpv6) {
  NeighbourLink link;
  link.receive(from_peer(kOurs, "2001:db8::2", "2001:db8::1", "80000000 00010002 6869", 64));
  const auto reply = make_icmpv6(gid("2001:db8::1"), gid("2001:db8::2"), 64, from_hex("81000000 00010002 6869"));
  EXPECT_EQ(link.take(), to_hex(make_ether(kPeer, kOurs, 0, kEtherIpv6, reply)));
  EXPECT_EQ(link.neighbours.counters().echo_answered.get(), 1u);
  link.receive(from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1", "80000000 00010002 6869", 64));
  EXPECT_TRUE(link.sent.empty());
}

// Random damage to good frames: only intact frames are answered, and nothing crashes.
TEST(Neighbours, SurvivesDamage) {
  Random random(20240611);
  NeighbourLink link;
  const std::vector<std::vector<std::byte>> good{
      from_hex(kArpRequest), from_peer(kGroupMac, "2001:db8::2", "ff02::1:ff00:1", kSolicitBody),
      from_peer(kOurs, "2001:db8::2", "2001:db8::1", "80000000 00010002 6869", 64)};
  for (int i = 0; i < 100000; ++i) {
    auto frame = good[random.below(good.size())];
    for (uint64_t n = random.below(4); n > 0; --n) {
      frame[random.below(frame.size())] = static_cast<std::byte>(random.next());
    }
    frame.resize(random.below(frame.size() + 1));
    link.receive(frame, Nanos(i));
    link.neighbours.poll(Nanos(i));
    link.sent.clear();
  }
  const auto& c = link.neighbours.counters();
  EXPECT_GT(c.malformed.get(), 1000u);
  EXPECT_GT(c.answered.get(), 100u);
}

}  // namespace
}  // namespace uroce::net
