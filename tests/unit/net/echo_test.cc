#include "net/echo.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "net/l2.h"

namespace uroce::net {
namespace {

const EchoRoute kRoute4{.device = EthAddr{{2, 0, 0, 0, 0, 1}},
                        .next_hop = EthAddr{{2, 0, 0, 0, 0, 2}},
                        .vlan = 0,
                        .from = Gid::from_ipv4(0x0a000001),
                        .to = Gid::from_ipv4(0x0a000002)};

EchoRoute route6() {
  EchoRoute route = kRoute4;
  route.vlan = 7;
  route.from = Gid{{0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
  route.to = Gid{{0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
  return route;
}

/// A host's answer, with the payload of the request but for `less` bytes.
std::vector<std::byte> answer(const EchoRoute& route, std::span<const std::byte> request, std::size_t less = 0) {
  const auto ether = parse_ether(request);
  bool malformed = false;
  const bool v4 = route.to.is_ipv4();
  const auto icmp = v4 ? parse_icmpv4(ether->payload, malformed) : parse_icmpv6(ether->payload, malformed);
  if (!icmp) return {};
  std::vector<std::byte> message(icmp->message.begin(), icmp->message.end() - static_cast<std::ptrdiff_t>(less));
  message[0] = std::byte{v4 ? uint8_t{0} : uint8_t{129}};
  const auto packet = v4 ? make_icmpv4(icmp->destination, icmp->source, std::move(message))
                         : make_icmpv6(icmp->destination, icmp->source, 64, std::move(message));
  return make_ether(ether->source, ether->destination, ether->vlan.value_or(0), ether->type, packet);
}

TEST(Echo, IsAsLongAsItShallBeAndIsNotFragmented) {
  const auto frame = make_echo(kRoute4, 1, 2, 4180);
  ASSERT_EQ(frame.size(), 14u + 4180);
  EXPECT_EQ(frame[14 + 6], std::byte{0x40}) << "do not fragment";
  bool malformed = false;
  const auto icmp = parse_icmpv4(std::span(frame).subspan(14), malformed);
  ASSERT_TRUE(icmp);
  EXPECT_EQ(icmp->destination, kRoute4.to);
  EXPECT_EQ(make_echo(route6(), 1, 2, 4180).size(), 18u + 4180);
}

TEST(Echo, TakesOnlyItsOwnAnswer) {
  for (const EchoRoute& route : {kRoute4, route6()}) {
    const auto request = make_echo(route, 77, 5, 1108);
    const auto back = answer(route, request);
    ASSERT_FALSE(back.empty());
    EXPECT_TRUE(answers_echo(back, route, 77, 5, 1108));
    EXPECT_FALSE(answers_echo(request, route, 77, 5, 1108)) << "a sniffer sees the request, too";
    EXPECT_FALSE(answers_echo(back, route, 78, 5, 1108));
    EXPECT_FALSE(answers_echo(back, route, 77, 4, 1108));
    EXPECT_FALSE(answers_echo(answer(route, request, 8), route, 77, 5, 1108)) << "not all of it came back";
    EXPECT_FALSE(answers_echo(std::span(back).first(back.size() - 1), route, 77, 5, 1108));
    EchoRoute other = route;
    std::swap(other.from, other.to);
    EXPECT_FALSE(answers_echo(back, other, 77, 5, 1108));
    for (std::size_t length = 0; length < 60; ++length)
      EXPECT_FALSE(answers_echo(std::span(back).first(length), route, 77, 5, 1108));
  }
}

TEST(Echo, AFragmentIsNoAnswer) {
  auto back = answer(kRoute4, make_echo(kRoute4, 77, 5, 1108));
  back[14 + 6] = std::byte{0x20};  // more fragments
  back[14 + 10] = back[14 + 11] = std::byte{0};
  InetChecksum sum;
  sum.add(std::span(back).subspan(14, 20));
  back[14 + 10] = static_cast<std::byte>(sum.value() >> 8);
  back[14 + 11] = static_cast<std::byte>(sum.value() & 0xff);
  EXPECT_FALSE(answers_echo(back, kRoute4, 77, 5, 1108));
}

/// A frame with UDP to a port.
std::vector<std::byte> udp(const EchoRoute& route, uint16_t port) {
  std::vector<std::byte> packet(20 + 8);
  auto made = make_icmpv4(route.from, route.to, std::vector<std::byte>(8));
  std::ranges::copy(made, packet.begin());
  packet[9] = std::byte{17};
  packet[10] = packet[11] = std::byte{0};
  InetChecksum sum;
  sum.add(std::span(packet).first(20));
  packet[10] = static_cast<std::byte>(sum.value() >> 8);
  packet[11] = static_cast<std::byte>(sum.value() & 0xff);
  packet[22] = static_cast<std::byte>(port >> 8);
  packet[23] = static_cast<std::byte>(port & 0xff);
  return make_ether(route.next_hop, route.device, route.vlan, kEtherIpv4, packet);
}

TEST(Echo, LearnsTheRouteFromAFrameThatLeaves) {
  EXPECT_EQ(route_of(udp(kRoute4, 4791), kRoute4.from, kRoute4.to), kRoute4);
  EchoRoute tagged = kRoute4;
  tagged.vlan = 9;
  EXPECT_EQ(route_of(udp(tagged, 4791), kRoute4.from, kRoute4.to), tagged);
  EXPECT_FALSE(route_of(udp(kRoute4, 4790), kRoute4.from, kRoute4.to));
  EXPECT_FALSE(route_of(udp(kRoute4, 4791), kRoute4.to, kRoute4.from)) << "the answer";
  EXPECT_FALSE(route_of(make_echo(kRoute4, 1, 1, 148), kRoute4.from, kRoute4.to));
}

}  // namespace
}  // namespace uroce::net
