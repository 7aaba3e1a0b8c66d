#include "net/address.h"

#include <gtest/gtest.h>

#include "addresses.h"
#include "wire/packet.h"

#include <cerrno>

namespace uroce::net {
namespace {

TEST(Address, ParsesInterfaceAddresses) {
  const auto v4 = parse_interface_address("192.0.2.1/24");
  ASSERT_TRUE(v4);
  EXPECT_EQ(v4->gid, Gid::from_ipv4(0xc0000201));
  EXPECT_EQ(v4->prefix, 24);
  const auto v6 = parse_interface_address(" 2001:db8::1/64 ");
  ASSERT_TRUE(v6);
  EXPECT_EQ(to_text(v6->gid), "2001:db8::1");
  EXPECT_EQ(v6->prefix, 64);
}

TEST(Address, RefusesWhatNoHostHas) {
  for (const char* text : {"192.0.2.1", "192.0.2.1/33", "192.0.2.1/", "192.0.2.1/x", "192.0.2.1/24x", "192.0.2/24", "",
                           "/", "2001:db8::1/129", "2001:db8::1/-1", "224.0.0.1/24", "255.255.255.255/24", "0.0.0.0/0",
                           "127.0.0.1/8", "::1/128", "::/0", "ff02::1/64", "::ffff:192.0.2.1/96", "host/24"}) {
    const auto parsed = parse_interface_address(text);
    ASSERT_FALSE(parsed) << text;
    EXPECT_EQ(parsed.error().code, EINVAL);
    EXPECT_NE(parsed.error().text.find('\''), std::string::npos) << "names the text: " << parsed.error().text;
  }
}

TEST(Address, ParsesLists) {
  const auto list = parse_interface_addresses("192.0.2.1/24, 2001:db8::1/64,198.51.100.7/25");
  ASSERT_TRUE(list);
  ASSERT_EQ(list->size(), 3u);
  EXPECT_EQ(to_text((*list)[2].gid), "198.51.100.7");
  EXPECT_FALSE(parse_interface_addresses("192.0.2.1/24,"));
  EXPECT_FALSE(parse_interface_addresses("192.0.2.1/24,192.0.2.1/16"));
  EXPECT_FALSE(parse_interface_addresses(""));
}

TEST(Address, ParsesPrefixes) {
  const auto list = parse_prefixes("192.0.2.128/25, 198.51.100.7,2001:db8::/33,0.0.0.0/0");
  ASSERT_TRUE(list);
  ASSERT_EQ(list->size(), 4u);
  const auto covers = [&](std::size_t i, const char* text) { return (*list)[i].covers(gid(text)); };
  EXPECT_TRUE(covers(0, "192.0.2.128") && covers(0, "192.0.2.255"));
  EXPECT_FALSE(covers(0, "192.0.2.127") || covers(0, "192.0.3.128") || covers(0, "2001:db8::1"));
  EXPECT_TRUE(covers(1, "198.51.100.7"));
  EXPECT_FALSE(covers(1, "198.51.100.6"));
  EXPECT_TRUE(covers(2, "2001:db8::1") && covers(2, "2001:db8:7fff::1"));
  EXPECT_FALSE(covers(2, "2001:db8:8000::1") || covers(2, "198.51.100.7"));
  EXPECT_TRUE(covers(3, "203.0.113.1"));
  EXPECT_FALSE(covers(3, "2001:db8::1")) << "of another family";
  EXPECT_TRUE(parse_prefixes("")->empty());
  for (const char* text : {"192.0.2.0/33", "2001:db8::/129", "192.0.2.0/", "host", "192.0.2.0/24,,", "192.0.2.0/-1"}) {
    EXPECT_FALSE(parse_prefixes(text)) << text;
  }
  EXPECT_TRUE(PeerList().takes(gid("203.0.113.1"))) << "an empty list takes all";
  EXPECT_FALSE(PeerList({(*list)[0], (*list)[1]}).takes(gid("203.0.113.1")));
  EXPECT_TRUE(PeerList({(*list)[0], (*list)[1]}).takes(gid("198.51.100.7")));
}

TEST(Address, LinkLocalFromMac) {
  const EthAddr mac{{0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde}};
  EXPECT_EQ(to_text(mac), "34:56:78:9a:bc:de");
  EXPECT_EQ(to_text(link_local(mac)), "fe80::3656:78ff:fe9a:bcde");  // RFC 4291, appendix A
  EXPECT_TRUE(is_link_local(link_local(mac)));
  EXPECT_FALSE(is_link_local(gid("2001:db8::1")));
}

TEST(Address, MulticastAddresses) {
  const Gid group = solicited_node(gid("4037::01:800:200e:8c6c"));
  EXPECT_EQ(to_text(group), "ff02::1:ff0e:8c6c");  // RFC 4291, 2.7.1
  EXPECT_EQ(to_text(wire::multicast_mac(group)), "33:33:ff:0e:8c:6c");
  EXPECT_TRUE(is_multicast(group));
  EXPECT_TRUE(is_multicast(gid("239.1.2.3")));
  EXPECT_TRUE(is_multicast(gid("255.255.255.255")));
  EXPECT_FALSE(is_multicast(gid("223.1.2.3")));
}

TEST(Address, SameSubnet) {
  EXPECT_TRUE(same_subnet(gid("192.0.2.1"), gid("192.0.2.254"), 24));
  EXPECT_FALSE(same_subnet(gid("192.0.2.1"), gid("192.0.3.1"), 24));
  EXPECT_TRUE(same_subnet(gid("192.0.2.1"), gid("192.0.3.1"), 23));
  EXPECT_TRUE(same_subnet(gid("192.0.2.1"), gid("10.0.0.1"), 0));
  EXPECT_FALSE(same_subnet(gid("192.0.2.1"), gid("2001:db8::1"), 0));
  EXPECT_TRUE(same_subnet(gid("2001:db8::1"), gid("2001:db8:0:0:8000::"), 64));
  EXPECT_FALSE(same_subnet(gid("2001:db8::1"), gid("2001:db8:0:1::"), 64));
  EXPECT_FALSE(same_subnet(gid("192.0.2.1"), gid("192.0.2.2"), 32));
}

AddressTable table(std::vector<const char*> addresses, std::vector<const char*> gateways = {}) {
  std::vector<InterfaceAddress> ours;
  for (const char* a : addresses) ours.push_back(parse_interface_address(a).value());
  std::vector<Gid> hops;
  for (const char* g : gateways) hops.push_back(gid(g));
  return {ours, hops};
}

TEST(AddressTable, ChoosesTheNextHop) {
  const auto t = table({"192.0.2.1/24", "2001:db8::1/64", "fe80::1/64"}, {"192.0.2.254", "fe80::ff"});
  EXPECT_EQ(t.next_hop(gid("192.0.2.9")).value(), gid("192.0.2.9"));
  EXPECT_EQ(t.next_hop(gid("198.51.100.1")).value(), gid("192.0.2.254"));
  EXPECT_EQ(t.next_hop(gid("2001:db8::9")).value(), gid("2001:db8::9"));
  EXPECT_EQ(t.next_hop(gid("fe80::9")).value(), gid("fe80::9"));
  EXPECT_EQ(t.next_hop(gid("2001:db8:1::9")).value(), gid("fe80::ff"));
}

TEST(AddressTable, HasNoRouteWithoutAGateway) {
  const auto t = table({"192.0.2.1/24", "fe80::1/64"});
  const auto hop = t.next_hop(gid("198.51.100.1"));
  ASSERT_FALSE(hop);
  EXPECT_EQ(hop.error().code, ENETUNREACH);
  EXPECT_NE(hop.error().text.find("198.51.100.1"), std::string::npos);
  EXPECT_NE(hop.error().text.find("192.0.2.1/24"), std::string::npos);
  for (const char* nobody : {"224.0.0.1", "0.0.0.0", "ff02::1", "2001:db8::1"}) {
    EXPECT_EQ(t.next_hop(gid(nobody)).error().code, ENETUNREACH) << nobody;
  }
}

TEST(AddressTable, UsesASourceInTheNeighboursSubnet) {
  const auto t = table({"192.0.2.1/24", "198.51.100.1/24", "2001:db8::1/64", "fe80::1/64"});
  EXPECT_EQ(t.source_for(gid("198.51.100.7")), gid("198.51.100.1"));
  EXPECT_EQ(t.source_for(gid("203.0.113.1")), gid("192.0.2.1"));
  EXPECT_EQ(t.source_for(gid("fe80::7")), gid("fe80::1"));
  EXPECT_TRUE(t.ours(gid("2001:db8::1")));
  EXPECT_FALSE(t.ours(gid("2001:db8::2")));
  EXPECT_EQ(table({"192.0.2.1/24"}).source_for(gid("fe80::7")), std::nullopt);
}

}  // namespace
}  // namespace uroce::net
