#include <gtest/gtest.h>

#include "tests/unit/wire/samples.h"
#include "wire/ethernet.h"
#include "wire/packet.h"

namespace uroce::wire {
namespace {

using test::Bytes;
using test::from_hex;

constexpr std::size_t kGuard = 8;

/// The bytes that write_l2_to_l4 writes. Fails when it writes more than it returns.
Bytes written(const Route& route, std::size_t l4_bytes, uint16_t ipv4_id, bool offload = false, uint8_t ecn = 0) {
  const RouteTemplate t = make_template(route);
  Bytes out(t.length + kGuard, std::byte{0xa5});
  EXPECT_EQ(write_l2_to_l4(out.data(), t, 0xd001, l4_bytes, ipv4_id, offload, ecn), t.length);
  for (std::size_t i = t.length; i < out.size(); ++i) EXPECT_EQ(out[i], std::byte{0xa5}) << "beyond the headers";
  out.resize(t.length);
  return out;
}

TEST(Route, Ipv4BytesAreTheExpectedOnes) {
  EXPECT_EQ(written(test::sample_routes()[0], 28, 0x1234), from_hex("0200000000020200000000010800"
                                                                    "456a0038123440004011a413c0000201c0000202"
                                                                    "d00112b700240000"));
}

TEST(Route, Ipv6BytesBehindAVlanTagAreTheExpectedOnes) {
  EXPECT_EQ(written(test::sample_routes()[3], 28, 0x1234),
            from_hex("02000000000202000000000181000fff86dd"
                     "66aabcde0024110320010db800000000000000000000000120010db8000000000000000000000002"
                     "d00112b700240000"));
}

TEST(Route, OffsetsFitTheRoute) {
  const auto routes = test::sample_routes();
  const std::array<std::array<int, 3>, 4> expected = {{{42, 14, 4}, {62, 14, 6}, {46, 18, 4}, {66, 18, 6}}};
  for (std::size_t i = 0; i < routes.size(); ++i) {
    const RouteTemplate t = make_template(routes[i]);
    EXPECT_EQ((std::array<int, 3>{t.length, t.l3_offset, t.ip_version}), expected[i]);
    EXPECT_EQ(written(routes[i], 16, 0).size(), t.length);
  }
}

TEST(Route, Ipv4ChecksumIsRightForEveryLengthAndId) {
  Route route = test::sample_routes()[0];
  for (uint32_t i = 0; i < 0x10000; i += 37) {
    route.traffic_class = static_cast<uint8_t>(i);
    route.dgid = Gid::from_ipv4(i * 0x01010101);
    const Bytes out = written(route, 16 + i % 4200, static_cast<uint16_t>(i));
    EXPECT_TRUE(ipv4_checksum_ok(out.data() + 14)) << i;
  }
}

TEST(Route, EcnJoinsTheClassOfServiceAndTheChecksumStaysRight) {
  for (Route route : test::sample_routes()) {
    for (uint32_t i = 0; i < 0x10000; i += 61) {
      route.traffic_class = static_cast<uint8_t>(i & 0xfc);
      const RouteTemplate t = make_template(route);
      const Bytes out = written(route, 16 + i % 4200, static_cast<uint16_t>(i * 7), false, 2);
      const std::byte* ip = out.data() + t.l3_offset;
      const uint32_t found = t.ip_version == 4 ? load8(ip + 1) : (load_be32(ip) >> 20) & 0xff;
      EXPECT_EQ(found, route.traffic_class | 2u);
      if (t.ip_version == 4) {
        EXPECT_TRUE(ipv4_checksum_ok(ip)) << i;
      } else {
        EXPECT_EQ(load_be32(ip) & 0xfffff, route.flow_label);
      }
    }
  }
}

TEST(Route, ChecksumOffloadLeavesTheFieldZero) {
  const Bytes out = written(test::sample_routes()[2], 28, 7, true);
  EXPECT_EQ(load_be16(out.data() + 18 + 10), 0);
}

TEST(Route, UdpSourcePortFoldsTheFlowLabel) {
  EXPECT_EQ(udp_source_port(0x00001, 0, 0), 0xc001);
  EXPECT_EQ(udp_source_port(0xfffff, 0, 0), 0xffff ^ 0x3f);
  EXPECT_EQ(udp_source_port(0xabcde, 0, 0), (0x3cde ^ 0x2a) | 0xc000);
  EXPECT_EQ(udp_source_port(0x3abcde, 0, 0), udp_source_port(0xabcde, 0, 0)) << "20 bits count";
}

TEST(Route, UdpSourcePortWithoutAFlowLabelComesFromTheQpns) {
  // 0x11 * 0x12 = 0x132 needs no folding.
  EXPECT_EQ(udp_source_port(0, 0x11, 0x12), 0xc132);
  EXPECT_EQ(udp_source_port(0, 0x12, 0x11), 0xc132) << "both ends of a connection agree";
  EXPECT_EQ(udp_source_port(0, 0, 0), 0xc000);
  // The product 0xfffffe000001 folds to the label 0xfff1e.
  EXPECT_EQ(udp_source_port(0, 0xffffff, 0xffffff), 0xff21);
}

TEST(Route, ATemplateTellsItsRouteAndEachChangedByteIsNoticed) {
  for (const Route& route : test::sample_routes()) {
    const RouteTemplate made = make_template(route);
    const auto found = route_of(made);
    ASSERT_TRUE(found.has_value());
    EXPECT_EQ(make_template(*found), made);
    EXPECT_EQ(source_of(made), route.sgid);
    EXPECT_EQ(destination_of(made), route.dgid);
    for (std::size_t at = 0; at < made.bytes.size(); ++at) {
      RouteTemplate changed = made;
      changed.bytes[at] ^= std::byte{0xff};
      const auto other = route_of(changed);
      // Either these headers have a route, which is another one, or none.
      EXPECT_TRUE(!other || make_template(*other) == changed) << at;
    }
    RouteTemplate changed = made;
    ++changed.length;
    EXPECT_FALSE(route_of(changed).has_value());
  }
}

}  // namespace
}  // namespace uroce::wire
