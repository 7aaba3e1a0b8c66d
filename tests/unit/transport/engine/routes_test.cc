#include "transport/engine/routes.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/unit/transport/bare_qp.h"

namespace uroce::transport {
namespace {

using test::BareQp;

wire::Route route_to(uint8_t host) {
  wire::Route route;
  route.sgid = Gid::from_ipv4(0x0a000001);
  route.dgid = Gid::from_ipv4(0x0a000000u + host);
  route.dst_mac = {{2, 0, 0, 0, 0, host}};
  return route;
}

uint8_t last_mac_byte(const Qp& qp) { return load8(qp.route->bytes.data() + 5); }

TEST(Routes, QueuePairsTowardsOnePeerShareATemplate) {
  Routes routes;
  BareQp a(1), b(2), c(3);
  routes.set(*a, route_to(2), false);
  routes.set(*b, route_to(2), true);
  routes.set(*c, route_to(3), false);
  EXPECT_EQ(a->route, b->route);
  EXPECT_NE(a->route, c->route);
  EXPECT_FALSE(a->loopback);
  EXPECT_TRUE(b->loopback);
}

TEST(Routes, AreForgottenOnceNobodyUsesThem) {
  Routes routes(7);
  BareQp kept(1), other(2);
  routes.set(*kept, route_to(2), false);
  for (uint32_t label = 0; label < 1000; ++label) {
    wire::Route route = route_to(3);
    route.dgid = route.sgid = Gid{{0x20, 1}};
    route.flow_label = label;
    routes.set(*other, route, false);
  }
  EXPECT_LT(routes.known(), 40u);
  const wire::RouteTemplate* before = kept->route;
  routes.set(*kept, route_to(2), false);
  EXPECT_EQ(kept->route, before);
}

// A neighbour's new address does not hide the route from others that have it.
TEST(Routes, AreSharedAfterARedirection) {
  Routes routes;
  BareQp a(1), b(2);
  routes.set(*a, route_to(2), false);
  const EthAddr moved{{2, 0, 0, 0, 0, 99}};
  routes.redirect([&](const Gid&) -> std::optional<EthAddr> { return moved; });
  wire::Route route = route_to(2);
  route.dst_mac = moved;
  routes.set(*b, route, false);
  EXPECT_EQ(a->route, b->route);
}

TEST(Routes, OnesWhoseDataPacketsSetTheEcnFieldHaveNoneInTheTemplate) {
  Routes routes;
  BareQp plain(1), marked(2);
  marked->ecn = 2;
  wire::Route route = route_to(2);
  route.traffic_class = 0x43;
  routes.set(*plain, route, false);
  routes.set(*marked, route, false);
  EXPECT_NE(plain->route, marked->route);
  EXPECT_EQ(load8(marked->route->bytes.data() + marked->route->l3_offset + 1), 0x40);
}

TEST(Routes, AreRedirectedToANewNextHop) {
  Routes routes;
  BareQp a(1), b(2);
  routes.set(*a, route_to(2), false);
  routes.set(*b, route_to(3), false);
  routes.redirect([](const Gid& dgid) -> std::optional<EthAddr> {
    if (dgid != Gid::from_ipv4(0x0a000002)) return std::nullopt;
    return EthAddr{{2, 0, 0, 0, 0, 99}};
  });
  EXPECT_EQ(last_mac_byte(*a), 99);
  EXPECT_EQ(last_mac_byte(*b), 3);
}

TEST(Routes, OnesThatNobodyUsesAreForgotten) {
  Routes routes;
  {
    BareQp gone(1);
    routes.set(*gone, route_to(2), false);
  }
  int asked = 0;
  routes.redirect([&](const Gid&) -> std::optional<EthAddr> {
    ++asked;
    return std::nullopt;
  });
  EXPECT_EQ(asked, 0);
}

}  // namespace
}  // namespace uroce::transport
