// The fields that receive rules look at, and the RoCE that a frame from a program must not carry.
#include "wire/flow_key.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>

#include "plain_frames.h"

namespace uroce::wire {
namespace {

FlowPattern pattern(const FlowRule& rule) {
  auto made = make_pattern(rule);
  EXPECT_TRUE(made) << made.error().text;
  return made.value_or(FlowPattern{});
}
bool takes(const FlowRule& rule, const FrameBytes& frame) { return pattern(rule).matches(flow_key(frame)); }

TEST(FlowKey, EthernetFieldsMatchUnderTheirMasks) {
  FlowRule rule;
  EXPECT_TRUE(takes(rule, ethernet(0x88b5))) << "a rule without fields takes everything";
  rule.value.eth_destination = kMine;
  rule.mask.eth_destination = {{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};
  EXPECT_TRUE(takes(rule, ethernet(0x88b5)));
  rule.value.eth_source = {{0x12, 0x34, 0, 0, 0, 0x02}};
  EXPECT_TRUE(takes(rule, ethernet(0x88b5))) << "bits outside the mask do not count";
  rule.mask.eth_source = {{0, 0, 0, 0, 0, 0x0f}};
  EXPECT_TRUE(takes(rule, ethernet(0x88b5)));
  rule.value.eth_source = {{0, 0, 0, 0, 0, 0x03}};
  EXPECT_FALSE(takes(rule, ethernet(0x88b5)));
}

TEST(FlowKey, ATagIsLookedThrough) {
  FlowRule rule;
  rule.value.eth_type = 0x0800;
  rule.mask.eth_type = 0xffff;
  rule.layers = FlowLayer::ipv4 | FlowLayer::udp;
  rule.value.destination_port = 5678;
  rule.mask.destination_port = 0xffff;
  const FrameBytes plain = ports(ipv4(ethernet(0x0800)), 1234, 5678);
  const FrameBytes tagged = ports(ipv4(ethernet(0x0800, {0xb00c})), 1234, 5678);
  EXPECT_TRUE(takes(rule, plain));
  EXPECT_TRUE(takes(rule, tagged));
  rule.value.vlan_tag = 0x000c;
  rule.mask.vlan_tag = 0x0fff;
  EXPECT_FALSE(takes(rule, plain));
  EXPECT_TRUE(takes(rule, tagged)) << "the priority is outside the mask";
  rule.mask.vlan_tag = 0xffff;
  EXPECT_FALSE(takes(rule, tagged));
}

TEST(FlowKey, Ipv4FieldsMatch) {
  FlowRule rule{.layers = FlowLayer::ipv4};
  rule.value = {.ip_source = kSource4, .ip_destination = kDestination4};
  rule.value.ip_protocol = 17;
  rule.value.traffic_class = 0x28;
  rule.value.hop_limit = 63;
  rule.value.ipv4_flags = 2;
  rule.mask = {.ip_source = Gid::from_ipv4(0xffffffff), .ip_destination = Gid::from_ipv4(0xffffff00)};
  rule.mask.ip_protocol = rule.mask.traffic_class = rule.mask.hop_limit = 0xff;
  rule.mask.ipv4_flags = 6;
  EXPECT_TRUE(takes(rule, ipv4(ethernet(0x0800))));
  EXPECT_FALSE(takes(rule, ipv4(ethernet(0x0800), {.protocol = 6})));
  EXPECT_FALSE(takes(rule, ipv4(ethernet(0x0800), {.fragment = 0x2000}))) << "more fragments follow";
  EXPECT_FALSE(takes(rule, ipv4(ethernet(0x88b5)))) << "bytes that look like IPv4 under another type";
  EXPECT_FALSE(takes(rule, ipv6(ethernet(0x86dd))));
}

TEST(FlowKey, Ipv6FieldsMatch) {
  FlowRule rule{.layers = FlowLayer::ipv6 | FlowLayer::tcp};
  rule.value = {.ip_source = kSource6, .ip_destination = kDestination6};
  rule.value.ip_protocol = 6;
  rule.value.traffic_class = 0x12;
  rule.value.hop_limit = 62;
  rule.value.flow_label = 0x83456;
  rule.value.source_port = 1234;
  Gid all;
  all.bytes.fill(0xff);
  rule.mask = {.ip_source = all, .ip_destination = all};
  rule.mask.ip_protocol = rule.mask.traffic_class = rule.mask.hop_limit = 0xff;
  rule.mask.flow_label = 0xfffff;
  rule.mask.source_port = 0xffff;
  EXPECT_TRUE(takes(rule, ports(ipv6(ethernet(0x86dd), 6), 1234, 80)));
  EXPECT_FALSE(takes(rule, ports(ipv6(ethernet(0x86dd), 6), 1235, 80)));
  EXPECT_FALSE(takes(rule, ports(ipv6(ethernet(0x86dd), 17), 1234, 80)));
}

TEST(FlowKey, PortsNeedATransportHeader) {
  const FlowRule udp{.layers = FlowLayers(FlowLayer::udp)};
  EXPECT_TRUE(takes(udp, ports(ipv4(ethernet(0x0800), {.option_words = 3}), 0, 0)));
  EXPECT_FALSE(takes(udp, ports(ipv4(ethernet(0x0800), {.fragment = 1}), 0, 0))) << "a later fragment";
  EXPECT_FALSE(takes(udp, ports(ipv4(ethernet(0x0800), {.protocol = 47}), 0, 0)));
  EXPECT_FALSE(takes(udp, ipv4(ethernet(0x0800)))) << "the frame ends before the ports";
  EXPECT_FALSE(takes({.layers = FlowLayers(FlowLayer::tcp)}, ports(ipv4(ethernet(0x0800)), 0, 0)));
}

TEST(FlowKey, DefaultRulesTakeGroupsOrAll) {
  FrameBytes to_group = ethernet(0x88b5);
  to_group[0] = std::byte{1};
  EXPECT_TRUE(takes({.type = FlowType::mc_default}, to_group));
  EXPECT_FALSE(takes({.type = FlowType::mc_default}, ethernet(0x88b5)));
  EXPECT_TRUE(takes({.type = FlowType::all_default}, ethernet(0x88b5)));
}

TEST(FlowKey, AWrongRuleIsRefusedByName) {
  const auto refused = [](const FlowRule& rule, const std::string& word) {
    const auto made = make_pattern(rule);
    ASSERT_FALSE(made) << word;
    EXPECT_EQ(made.error().code, EINVAL);
    EXPECT_NE(made.error().text.find(word), std::string::npos) << made.error().text;
  };
  refused({.type = static_cast<FlowType>(4)}, "FlowRule::type 4");
  refused({.layers = FlowLayers::from_bits(16)}, "unknown bits 0x10");
  refused({.layers = FlowLayer::ipv4 | FlowLayer::ipv6}, "two rules");
  refused({.layers = FlowLayer::tcp | FlowLayer::udp}, "two rules");
  refused({.mask = {.hop_limit = 1}}, "IP fields");
  refused({.mask = {.ipv4_flags = 2}}, "IP fields");
  refused({.layers = FlowLayers(FlowLayer::ipv6), .mask = {.ipv4_flags = 2}}, "ipv4_flags");
  refused({.layers = FlowLayers(FlowLayer::ipv4), .mask = {.flow_label = 2}}, "flow_label");
  refused({.layers = FlowLayers(FlowLayer::ipv4), .mask = {.source_port = 2}}, "ports");
  refused({.type = FlowType::sniffer, .mask = {.eth_type = 1}}, "normal");
  refused({.type = FlowType::all_default, .layers = FlowLayers(FlowLayer::ipv4)}, "normal");
}

}  // namespace
}  // namespace uroce::wire
