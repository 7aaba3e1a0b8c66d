#include "pmd_glue/stack_options.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "pmd_glue/frame_size.h"
#include "settings/table.h"

namespace uroce::glue {
namespace {

const EthAddr kMac{{0x02, 0, 0, 0, 0, 0x01}};

TEST(StackOptions, RefusesNumbersOutOfRange) {
  StackOptions options;
  EXPECT_TRUE(check_options(options));
  options.vlan = 4095;
  EXPECT_NE(check_options(options).error().text.find("4095"), std::string::npos);
  options.vlan = 0;
  options.rx_descriptors = 1;
  EXPECT_EQ(check_options(options).error().code, EINVAL);
  options.rx_descriptors = 1024;
  options.gateway = "192.0.2";
  EXPECT_NE(check_options(options).error().text.find("'192.0.2'"), std::string::npos);
  options.gateway = "";
  options.icrc = "z80";
  EXPECT_EQ(check_options(options).error().text.find("icrc is \"z80\"; on this CPU it must be one of automatic, "), 0u);
  for (const std::string_view name : settings::icrc_choices()) {
    options.icrc = name;
    EXPECT_TRUE(check_options(options)) << name;
  }
}

TEST(StackOptions, APortsOwnSettingsGoBeforeTheStacks) {
  StackOptions options;
  options.mtu = 1500;
  options.vlan = 7;
  options.gateway = "192.0.2.254";
  options.ports = {{}, {.mtu = 4200, .vlan = 0, .gateway = ""}};
  for (const std::size_t port : {0u, 2u}) {
    EXPECT_EQ(options_of_port(options, port).mtu, 1500);
    EXPECT_EQ(options_of_port(options, port).vlan, 7);
    EXPECT_EQ(options_of_port(options, port).gateway, "192.0.2.254");
  }
  EXPECT_EQ(options_of_port(options, 1).mtu, 4200);
  EXPECT_EQ(options_of_port(options, 1).vlan, 0);
  EXPECT_EQ(options_of_port(options, 1).gateway, "");
  options.ports[1] = {.retransmission = Retransmission::go_back_n,
                      .congestion_control = CongestionAlgorithm::swift,
                      .udp_source_ports = 4};
  EXPECT_EQ(options_of_port(options, 1).settings.retransmission, Retransmission::go_back_n);
  EXPECT_EQ(options_of_port(options, 1).settings.congestion.algorithm, CongestionAlgorithm::swift);
  EXPECT_EQ(options_of_port(options, 1).settings.udp_source_ports, 4u);
  EXPECT_EQ(options_of_port(options, 0).settings.retransmission, Retransmission::automatic);
  EXPECT_TRUE(check_options(options));
  options.ports[1].vlan = 5000;
  EXPECT_NE(check_options(options).error().text.find("5000"), std::string::npos);
  options.ports[1] = {.gateway = "192.0.2"};
  EXPECT_NE(check_options(options).error().text.find("'192.0.2'"), std::string::npos);
}

TEST(StackOptions, GivesEveryPortAddresses) {
  StackOptions options;
  options.addresses = {"192.0.2.1/24,2001:db8::1/64"};
  const auto first = address_table(options, 0, kMac);
  ASSERT_TRUE(first);
  ASSERT_EQ(first->gids().size(), 3u);
  EXPECT_EQ(net::to_text(first->gids()[0]), "192.0.2.1");
  EXPECT_EQ(net::to_text(first->gids()[2]), "fe80::ff:fe00:1");
  const auto second = address_table(options, 1, kMac);
  ASSERT_TRUE(second);
  EXPECT_EQ(net::to_text(second->gids()[0]), "10.117.0.2");
  options.addresses = {"192.0.2.1"};
  EXPECT_NE(address_table(options, 0, kMac).error().text.find("port 0"), std::string::npos);
}

TEST(StackOptions, UsesAGatewayWhereItsSubnetIs) {
  StackOptions options;
  options.addresses = {"192.0.2.1/24", "198.51.100.1/24"};
  options.gateway = "192.0.2.254,fe80::1";
  const Gid far = net::parse_address("203.0.113.1").value();
  EXPECT_EQ(net::to_text(address_table(options, 0, kMac)->next_hop(far).value()), "192.0.2.254");
  EXPECT_EQ(address_table(options, 1, kMac)->next_hop(far).error().code, ENETUNREACH);
  const Gid far6 = net::parse_address("2001:db8::9").value();
  EXPECT_EQ(net::to_text(address_table(options, 1, kMac)->next_hop(far6).value()), "fe80::1");
}

TEST(StackOptions, TheKernelsAddressesHaveItsVlanAndRoutes) {
  StackOptions options;
  options.addresses = {"192.0.2.1/24", std::string(StackOptions::kKernelAddresses)};
  EXPECT_FALSE(has_kernel_addresses(options, 0));
  EXPECT_TRUE(has_kernel_addresses(options, 1));
  EXPECT_FALSE(has_kernel_addresses(options, 2));
  options.gateway = "192.0.2.254";  // for the other port
  EXPECT_TRUE(check_options(options));
  options.ports = {{}, {.gateway = "192.0.2.254"}};
  EXPECT_NE(check_options(options).error().text.find("gateway is 192.0.2.254, but port 1"), std::string::npos);
  options.ports = {{.vlan = 5}, {}};
  EXPECT_TRUE(check_options(options));
  options.ports = {{}, {.vlan = 5}};
  EXPECT_NE(check_options(options).error().text.find("vlan is 5, but port 1"), std::string::npos);
  options.ports = {};
  options.vlan = 6;
  EXPECT_NE(check_options(options).error().text.find("vlan is 6, but port 1"), std::string::npos);
}

TEST(FrameSize, ChoosesThePathMtu) {
  EXPECT_EQ(path_mtu_for(1500), Mtu::mtu1024);
  EXPECT_EQ(path_mtu_for(2200), Mtu::mtu2048);
  EXPECT_EQ(path_mtu_for(4096), Mtu::mtu2048);
  EXPECT_EQ(path_mtu_for(4180), Mtu::mtu4096);
  EXPECT_EQ(path_mtu_for(4179), Mtu::mtu2048);
  EXPECT_EQ(path_mtu_for(339), std::nullopt);
}

}  // namespace
}  // namespace uroce::glue
