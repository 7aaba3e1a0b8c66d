// The fields that receive rules look at, and the RoCE that a frame from a program must not carry.
#include "wire/flow_key.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/random.h"
#include "wire/packet.h"

namespace uroce::wire {
namespace {

using Bytes = std::vector<std::byte>;

constexpr EthAddr kMine{{2, 0, 0, 0, 0, 1}};
constexpr EthAddr kTheirs{{2, 0, 0, 0, 0, 2}};
const Gid kSource4 = Gid::from_ipv4(0x01010101);
const Gid kDestination4 = Gid::from_ipv4(0x02020202);
const Gid kSource6{{0xa0, 0xa1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
const Gid kDestination6{{0xb0, 0xb1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};

void add(Bytes& to, std::initializer_list<int> bytes) {
  for (const int byte : bytes) to.push_back(static_cast<std::byte>(byte));
}
void add16(Bytes& to, uint16_t value) { add(to, {value >> 8, value & 0xff}); }

Bytes ethernet(uint16_t type, std::initializer_list<uint16_t> tags = {}, uint16_t tpid = 0x8100) {
  Bytes frame;
  for (const uint8_t byte : kMine.bytes) frame.push_back(std::byte{byte});
  for (const uint8_t byte : kTheirs.bytes) frame.push_back(std::byte{byte});
  for (const uint16_t tag : tags) {
    add16(frame, tpid);
    add16(frame, tag);
  }
  add16(frame, type);
  return frame;
}

struct Ip {
  uint8_t protocol = 17;
  uint16_t fragment = 0x4000;  // DF
  uint32_t option_words = 0;
};

Bytes ipv4(Bytes frame, Ip ip = {}) {
  const auto words = static_cast<int>(5 + ip.option_words);
  add(frame, {0x40 | words, 0x28, 0, 60, 0, 0, ip.fragment >> 8, ip.fragment & 0xff, 63, ip.protocol, 0, 0});
  add(frame, {1, 1, 1, 1, 2, 2, 2, 2});
  frame.resize(frame.size() + std::size_t{ip.option_words} * 4);
  return frame;
}

Bytes ipv6(Bytes frame, uint8_t next = 17) {
  add(frame, {0x61, 0x28, 0x34, 0x56, 0, 20, next, 62});
  for (const uint8_t byte : kSource6.bytes) frame.push_back(std::byte{byte});
  for (const uint8_t byte : kDestination6.bytes) frame.push_back(std::byte{byte});
  return frame;
}

Bytes ports(Bytes frame, uint16_t source, uint16_t destination) {
  add16(frame, source);
  add16(frame, destination);
  frame.resize(frame.size() + 16);
  return frame;
}

FlowPattern pattern(const FlowRule& rule) {
  auto made = make_pattern(rule);
  EXPECT_TRUE(made) << made.error().text;
  return made.value_or(FlowPattern{});
}
bool takes(const FlowRule& rule, const Bytes& frame) { return pattern(rule).matches(flow_key(frame)); }

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
  const Bytes plain = ports(ipv4(ethernet(0x0800)), 1234, 5678);
  const Bytes tagged = ports(ipv4(ethernet(0x0800, {0xb00c})), 1234, 5678);
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
  Bytes to_group = ethernet(0x88b5);
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

// --- Looking for RoCE -----------------------------------------------------------------------------------------

bool carries(const Bytes& frame) { return may_carry_roce(frame, true); }

TEST(RoceSearch, FindsThePortBehindTagsOptionsAndExtensions) {
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800)), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800, {5})), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800, {5, 6, 7})), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800, {5}, 0x88a8)), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800), {.option_words = 10}), 0xc000, 4791)));
  EXPECT_TRUE(carries(ports(ipv4(ethernet(0x0800), {.fragment = 0x2000}), 0xc000, 4791))) << "the first fragment";
  EXPECT_TRUE(carries(ports(ipv6(ethernet(0x86dd)), 0xc000, 4791)));
  for (const uint8_t extension : {0, 43, 60, 135}) {
    Bytes frame = ipv6(ethernet(0x86dd), extension);
    add(frame, {17, 1});  // 16 bytes
    frame.resize(frame.size() + 14);
    EXPECT_TRUE(carries(ports(frame, 0xc000, 4791))) << int{extension};
  }
  Bytes fragment = ipv6(ethernet(0x86dd), 44);
  add(fragment, {17, 0, 0, 1, 0, 0, 0, 0});
  EXPECT_TRUE(carries(ports(fragment, 0xc000, 4791)));
}

TEST(RoceSearch, LeavesOthersAlone) {
  EXPECT_FALSE(carries(ethernet(0x88b5)));
  EXPECT_FALSE(carries(ports(ipv4(ethernet(0x0800)), 4791, 5678))) << "from the port, not to it";
  EXPECT_FALSE(carries(ports(ipv4(ethernet(0x0800), {.protocol = 6}), 1, 4791)));
  EXPECT_FALSE(carries(ports(ipv4(ethernet(0x0800), {.fragment = 7}), 1, 4791))) << "a later fragment has no ports";
  EXPECT_FALSE(carries(ports(ethernet(0x88b5), 1, 4791)));
  Bytes fragment = ipv6(ethernet(0x86dd), 44);
  add(fragment, {17, 0, 1, 1, 0, 0, 0, 0});
  EXPECT_FALSE(carries(ports(fragment, 0xc000, 4791)));
}

TEST(RoceSearch, HeadersBeyondTheBeginningCount) {
  const Bytes whole = ports(ipv6(ethernet(0x86dd)), 0xc000, 5678);
  for (std::size_t bytes = 14; bytes < 14 + 40 + 4; ++bytes) {
    EXPECT_TRUE(may_carry_roce(std::span(whole).first(bytes), false)) << bytes;
    EXPECT_FALSE(may_carry_roce(std::span(whole).first(bytes), true)) << bytes << ": no receiver reads further";
  }
}

// Frames of random headers, and of random bytes. A frame that ports steer as RoCE must be found whatever it is.
TEST(RoceSearch, FindsAllThatIsSteeredAsRoce) {
  constexpr uint64_t kSeed = 20261123;
  Random random(kSeed);
  uint32_t found = 0;
  for (int i = 0; i < 200'000; ++i) {
    Bytes frame;
    switch (random.next() % 4) {
      case 0: frame = ports(ipv4(ethernet(0x0800), {.option_words = uint32_t(random.next() % 11)}), 1, 4791); break;
      case 1: frame = ports(ipv4(ethernet(0x0800, {1})), 1, 4791); break;
      case 2: frame = ports(ipv6(ethernet(0x86dd)), 1, 4791); break;
      default: frame.resize(random.next() % 160);
    }
    for (uint64_t changes = random.next() % 4; changes > 0 && !frame.empty(); --changes) {
      frame[random.next() % frame.size()] = static_cast<std::byte>(random.next());
    }
    frame.resize(random.next() % (frame.size() + 1));
    (void)flow_key(frame);  // under sanitizers: reads nothing outside
    const bool whole = frame.size() <= kRoceSearchBytes;
    const bool may = may_carry_roce(whole ? frame : Bytes(frame.begin(), frame.begin() + kRoceSearchBytes), whole);
    if (peek(frame).kind != Peek::Kind::roce) continue;
    ++found;
    EXPECT_TRUE(may) << "seed " << kSeed << ", frame " << i;
  }
  EXPECT_GT(found, 10'000u);
}

}  // namespace
}  // namespace uroce::wire
