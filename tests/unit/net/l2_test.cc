#include "net/l2.h"

#include <gtest/gtest.h>

#include "frames.h"
#include "net/address.h"

namespace uroce::net {
namespace {

// Computed by hand from RFC 1071, 3: words 0001 f203 f4f5 f6f7 sum to ddf2.
TEST(InetChecksum, MatchesTheRfc) {
  InetChecksum sum;
  sum.add(from_hex("0001 f203 f4f5 f6f7"));
  EXPECT_EQ(sum.value(), 0xffff ^ 0xddf2);
  InetChecksum odd;
  odd.add(from_hex("0001f2"));
  EXPECT_EQ(odd.value(), 0xffff ^ 0xf201);
  EXPECT_EQ(InetChecksum{}.value(), 0xffff);
}

TEST(Ether, ParsesTagged) {
  const auto frame = from_hex("0200000000aa 0200000000bb 8100 e064 0806 0001");
  const auto view = parse_ether(frame);
  ASSERT_TRUE(view);
  EXPECT_EQ(view->vlan, 100);  // the priority is not part of the id
  EXPECT_EQ(view->type, kEtherArp);
  EXPECT_EQ(view->payload.size(), 2u);
  EXPECT_EQ(to_text(view->source), "02:00:00:00:00:bb");
  for (std::size_t n = 0; n < 18; ++n) EXPECT_FALSE(parse_ether(std::span(frame).first(n))) << n;
}

TEST(Ether, MakesTagged) {
  const auto frame = make_ether({{2, 0, 0, 0, 0, 1}}, {{2, 0, 0, 0, 0, 2}}, 100, kEtherIpv4, from_hex("45"));
  EXPECT_EQ(to_hex(frame),
            "0200000000010200000000028100006408"
            "0045");
}

// Echo request 192.0.2.2 -> 192.0.2.1, id 1, sequence 2, data "hi!".
const char* const kEcho4 = "4500001f 00000000 4001f6da c0000202 c0000201 08006e93 00010002 686921";

TEST(Icmp, ParsesIpv4) {
  bool malformed = true;
  const auto packet = from_hex(kEcho4);
  const auto icmp = parse_icmpv4(packet, malformed);
  ASSERT_TRUE(icmp);
  EXPECT_FALSE(malformed);
  EXPECT_EQ(to_text(icmp->source), "192.0.2.2");
  EXPECT_EQ(to_text(icmp->destination), "192.0.2.1");
  EXPECT_EQ(icmp->message.size(), 11u);
  // Bytes after the total length are Ethernet padding.
  auto padded = packet;
  padded.resize(60);
  EXPECT_TRUE(parse_icmpv4(padded, malformed));
}

TEST(Icmp, FindsEveryBitFlipInIpv4) {
  const auto packet = from_hex(kEcho4);
  for (std::size_t bit = 0; bit < packet.size() * 8; ++bit) {
    auto bad = packet;
    bad[bit / 8] ^= static_cast<std::byte>(1u << bit % 8);
    bool malformed = false;
    EXPECT_FALSE(parse_icmpv4(bad, malformed)) << bit;
    EXPECT_TRUE(malformed) << bit;
  }
  for (std::size_t n = 0; n < packet.size(); ++n) {
    bool malformed = false;
    EXPECT_FALSE(parse_icmpv4(std::span(packet).first(n), malformed)) << n;
  }
}

TEST(Icmp, LeavesFragmentsAndOtherProtocols) {
  auto fragment = from_hex("4500001f 00002000 4001d6da c0000202 c0000201 08006e93 00010002 686921");
  bool malformed = true;
  EXPECT_FALSE(parse_icmpv4(fragment, malformed));
  EXPECT_FALSE(malformed);
  auto tcp = from_hex("4500001f 00000000 4006f6d5 c0000202 c0000201 08006e93 00010002 686921");
  EXPECT_FALSE(parse_icmpv4(tcp, malformed));
  EXPECT_FALSE(malformed);
}

TEST(Icmp, MadePacketsParse) {
  const Gid a = Gid::from_ipv4(0xc0000201);
  const Gid b = Gid::from_ipv4(0xc0000202);
  bool malformed = true;
  const auto v4 = make_icmpv4(b, a, from_hex("0800ffff00010002686921"));
  EXPECT_EQ(v4, from_hex(kEcho4));
  const Gid c = parse_address("2001:db8::1").value();
  const Gid d = parse_address("2001:db8::2").value();
  for (const char* body : {"8000ffff00010002", "8000ffff0001000261", "8000ffff00010002ffffff"}) {
    const auto v6 = make_icmpv6(c, d, 64, from_hex(body));
    const auto view = parse_icmpv6(v6, malformed);
    ASSERT_TRUE(view) << body;
    EXPECT_EQ(view->source, c);
    EXPECT_EQ(view->destination, d);
    EXPECT_EQ(view->hop_limit, 64);
    for (std::size_t n = 0; n < v6.size(); ++n) EXPECT_FALSE(parse_icmpv6(std::span(v6).first(n), malformed)) << n;
    auto bad = v6;
    bad[20] ^= std::byte{1};  // an address: the pseudo header covers it
    EXPECT_FALSE(parse_icmpv6(bad, malformed));
  }
}

}  // namespace
}  // namespace uroce::net
