#include "tests/script/raw_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "tests/script/names.h"
#include "tests/support/memory.h"
#include "wire/ethernet.h"

namespace uroce::test {
namespace {

constexpr EthAddr kGroupMac{{1, 0, 0x5e, 0, 1, 7}};
constexpr std::array kFlowTypeNames{
    Name<FlowType>{"normal", FlowType::normal},
    Name<FlowType>{"default", FlowType::all_default},
    Name<FlowType>{"group_default", FlowType::mc_default},
    Name<FlowType>{"sniffer", FlowType::sniffer},
};
constexpr std::array kHashNames{
    Name<RxHashField>{"ipv4_source", RxHashField::ipv4_source},
    Name<RxHashField>{"ipv4_destination", RxHashField::ipv4_destination},
    Name<RxHashField>{"udp_source_port", RxHashField::udp_source_port},
    Name<RxHashField>{"udp_destination_port", RxHashField::udp_destination_port},
    Name<RxHashField>{"tcp_source_port", RxHashField::tcp_source_port},
    Name<RxHashField>{"tcp_destination_port", RxHashField::tcp_destination_port},
};
// "Verifying the RSS Hash Calculation", Microsoft.
constexpr std::array<uint8_t, RxHash::kKeyBytes> kHashKey = {
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3,
    0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3,
    0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa};

EthAddr mac_named(const Words& words, const Wiring& wiring, const std::string& name) {
  if (name == "us") return wiring.local.mac;
  if (name == "peer") return wiring.peer.mac;
  if (name == "group") return kGroupMac;
  words.error(fmt::format("'{}' is no Ethernet address; write us, peer or group", name));
}

uint32_t ipv4_of(const Words& words, const std::string& text) {
  unsigned a = 0, b = 0, c = 0, d = 0;
  if (std::sscanf(text.c_str(), "%u.%u.%u.%u", &a, &b, &c, &d) != 4) words.error(fmt::format("'{}' is no IPv4", text));
  return a << 24 | b << 16 | c << 8 | d;
}

/// `SOURCE,DESTINATION`.
std::pair<std::string, std::string> both(const Words& words, const std::string& text) {
  const std::size_t comma = text.find(',');
  if (comma == std::string::npos) words.error(fmt::format("'{}': write SOURCE,DESTINATION", text));
  return {text.substr(0, comma), text.substr(comma + 1)};
}

uint16_t port_of(const std::string& text) { return static_cast<uint16_t>(std::stoul(text, nullptr, 0)); }

struct L4 {
  uint8_t protocol;
  FlowLayer layer;
  std::string ports;
};
std::optional<L4> l4_of(Words& words) {
  if (const auto ports = words.text("udp")) return L4{wire::kProtocolUdp, FlowLayer::udp, *ports};
  if (const auto ports = words.text("tcp")) return L4{wire::kProtocolTcp, FlowLayer::tcp, *ports};
  return std::nullopt;
}

void put16(Frame& frame, uint32_t value) {
  frame.push_back(static_cast<std::byte>(value >> 8));
  frame.push_back(static_cast<std::byte>(value));
}
void put32(Frame& frame, uint32_t value) {
  put16(frame, value >> 16);
  put16(frame, value & 0xffff);
}

void put_ipv4(Frame& frame, const Words& words, const std::string& addresses, uint8_t protocol, uint16_t fragment) {
  put16(frame, 0x4500);
  put16(frame, 0);  // nobody looks at the length
  put16(frame, 0);
  put16(frame, fragment);
  put16(frame, 64u << 8 | protocol);
  put16(frame, 0);
  const auto [source, destination] = both(words, addresses);
  put32(frame, ipv4_of(words, source));
  put32(frame, ipv4_of(words, destination));
}

}  // namespace

Frame build_raw_frame(Words& words, const Wiring& wiring) {
  Frame frame;
  const EthAddr macs[] = {mac_named(words, wiring, words.text("to").value_or("us")),
                          mac_named(words, wiring, words.text("from").value_or("peer"))};
  for (const EthAddr& mac : macs) {
    for (const uint8_t byte : mac.bytes) frame.push_back(std::byte{byte});
  }
  if (const auto tag = words.number("vlan"))
    put32(frame, uint32_t{wire::kEthertypeVlan} << 16 | static_cast<uint32_t>(*tag));
  const auto addresses = words.text("ip");
  put16(frame, static_cast<uint32_t>(words.number_or("type", addresses ? wire::kEthertypeIpv4 : 0x88b5)));
  const auto l4 = l4_of(words);
  const auto fragment = static_cast<uint16_t>(words.number_or("fragment", 0));
  if (addresses) put_ipv4(frame, words, *addresses, l4 ? l4->protocol : uint8_t{50}, fragment);
  if (l4) {
    const auto [source, destination] = both(words, l4->ports);
    put16(frame, port_of(source));
    put16(frame, port_of(destination));
  }
  const std::size_t headers = frame.size();
  const std::size_t length = words.number_or("len", 60);
  frame.resize(length);
  if (length > headers) fill_pattern(std::span(frame).subspan(headers), length);
  return frame;
}

std::optional<std::string> raw_mismatch(const ScriptLine& line, const Symbols& symbols, const Wiring& wiring,
                                        const SentFrame& frame) {
  Words words(line, symbols);
  words.flag("FRAME");
  const bool here = words.flag("here");
  const Frame wanted = build_raw_frame(words, wiring);
  words.done();
  if (!frame.raw) return describe(frame.bytes);
  if (frame.loopback != here) return frame.loopback ? "a frame that stays here" : "a frame to the wire";
  if (frame.bytes.size() != wanted.size()) return fmt::format("a frame of {} bytes", frame.bytes.size());
  const auto differs = std::ranges::mismatch(frame.bytes, wanted).in1;
  if (differs == frame.bytes.end()) return std::nullopt;
  return fmt::format("a frame that differs from byte {} on", differs - frame.bytes.begin());
}

FlowRule parse_rule(Words& words, const Wiring& wiring) {
  FlowRule rule;
  const auto kind = words.text("kind").value_or("normal");
  const auto type = enum_of(kFlowTypeNames, kind);
  if (!type) words.error(fmt::format("'{}' is no kind of rule", kind));
  rule.type = *type;
  rule.priority = static_cast<uint16_t>(words.number_or("priority", 0));
  rule.tag = static_cast<uint32_t>(words.number_or("tag", 0));
  if (const auto mac = words.text("mac")) {
    rule.value.eth_destination = mac_named(words, wiring, *mac);
    rule.mask.eth_destination.bytes.fill(0xff);
  }
  if (const auto ethertype = words.number("type")) {
    rule.value.eth_type = static_cast<uint16_t>(*ethertype);
    rule.mask.eth_type = 0xffff;
  }
  if (const auto source = words.text("ip")) {
    rule.layers |= FlowLayer::ipv4;
    rule.value.ip_source = Gid::from_ipv4(ipv4_of(words, *source));
    rule.mask.ip_source = Gid::from_ipv4(0xffffffff);
  }
  if (const auto l4 = l4_of(words)) {
    rule.layers |= l4->layer;
    rule.value.destination_port = port_of(l4->ports);
    rule.mask.destination_port = 0xffff;
  }
  return rule;
}

RxHash parse_hash(Words& words) {
  RxHash hash{.key = kHashKey};
  const std::string fields = words.text("hash").value_or("");
  for (std::size_t at = 0; at < fields.size();) {
    const std::size_t end = std::min(fields.find(',', at), fields.size());
    const auto field = enum_of(kHashNames, fields.substr(at, end - at));
    if (!field) words.error(fmt::format("'{}' is no field of a hash", fields.substr(at, end - at)));
    hash.fields |= *field;
    at = end + 1;
  }
  return hash;
}

}  // namespace uroce::test
