#include "net/address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>

#include "base/comma_list.h"

namespace uroce::net {

namespace {

constexpr uint8_t kMappedBits = 96;  // an IPv4 address has the prefix ::ffff:0:0/96

std::string_view trim(std::string_view text) {
  const auto first = text.find_first_not_of(' ');
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// Why no host can have this address; nullptr if one can.
const char* unusable(const Gid& gid) {
  if (is_unspecified(gid)) return "the unspecified address";
  if (is_multicast(gid)) return "a multicast or broadcast address";
  if (is_loopback(gid)) return "the host's own loopback address";
  return nullptr;
}

}  // namespace

Result<Gid> parse_address(std::string_view text) {
  const std::string copy(text);
  Gid gid;
  in_addr v4{};
  if (inet_pton(AF_INET, copy.c_str(), &v4) == 1 && copy.size() == std::strlen(copy.c_str())) {
    return Gid::from_ipv4(ntohl(v4.s_addr));
  }
  if (inet_pton(AF_INET6, copy.c_str(), gid.bytes.data()) == 1 && copy.size() == std::strlen(copy.c_str())) {
    if (gid.is_ipv4())
      return fail(EINVAL, fmt::format("'{}' is an IPv4 address in IPv6 form; write it as a.b.c.d", copy));
    return gid;
  }
  return fail(EINVAL,
              fmt::format("'{}' is neither an IPv4 nor an IPv6 address; write e.g. 192.0.2.1 or 2001:db8::1", copy));
}

namespace {

/// Reads the prefix length of `gid`; `text` is the whole, for errors.
Result<uint8_t> parse_bits(std::string_view text, std::string_view digits, const Gid& gid) {
  const unsigned limit = gid.is_ipv4() ? 32 : 128;
  unsigned bits = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
  if (error != std::errc{} || end != digits.data() + digits.size() || bits > limit) {
    return fail(EINVAL, fmt::format("address '{}': the prefix length must be a number from 0 to {}", text, limit));
  }
  return static_cast<uint8_t>(bits);
}

Result<Prefix> parse_prefix(std::string_view text) {
  text = trim(text);
  const auto slash = std::min(text.find('/'), text.size());
  const auto gid = parse_address(text.substr(0, slash));
  if (!gid) return std::unexpected(gid.error());
  if (slash == text.size()) return Prefix{*gid, static_cast<uint8_t>(gid->is_ipv4() ? 32 : 128)};
  const auto bits = parse_bits(text, text.substr(slash + 1), *gid);
  if (!bits) return std::unexpected(bits.error());
  return Prefix{*gid, *bits};
}

}  // namespace

Result<std::vector<Prefix>> parse_prefixes(std::string_view text) {
  std::vector<Prefix> out;
  for (const std::string_view item : items_of_list(text)) {
    const auto one = parse_prefix(item);
    if (!one) return std::unexpected(one.error());
    out.push_back(*one);
  }
  return out;
}

Result<InterfaceAddress> parse_interface_address(std::string_view text) {
  text = trim(text);
  const auto slash = text.find('/');
  if (slash == std::string_view::npos) {
    return fail(EINVAL,
                fmt::format("address '{}' has no prefix length; write e.g. 192.0.2.1/24 or 2001:db8::1/64", text));
  }
  auto gid = parse_address(text.substr(0, slash));
  if (!gid) return std::unexpected(gid.error());
  if (const char* why = unusable(*gid)) {
    return fail(EINVAL, fmt::format("address '{}' is {}; give the port a unicast address of its own", text, why));
  }
  const auto prefix = parse_bits(text, text.substr(slash + 1), *gid);
  if (!prefix) return std::unexpected(prefix.error());
  return InterfaceAddress{*gid, *prefix};
}

Result<std::vector<InterfaceAddress>> parse_interface_addresses(std::string_view text) {
  std::vector<InterfaceAddress> out;
  for (const std::string_view item : split_at_commas(text)) {
    auto one = parse_interface_address(item);
    if (!one) return std::unexpected(one.error());
    if (std::ranges::any_of(out, [&](const InterfaceAddress& a) { return a.gid == one->gid; })) {
      return fail(EINVAL, fmt::format("address {} is given twice for one port; remove one", to_text(one->gid)));
    }
    out.push_back(*one);
  }
  return out;
}

std::string to_text(const Gid& gid) {
  char text[INET6_ADDRSTRLEN] = "";
  if (gid.is_ipv4()) {
    inet_ntop(AF_INET, gid.bytes.data() + 12, text, sizeof text);
  } else {
    inet_ntop(AF_INET6, gid.bytes.data(), text, sizeof text);
  }
  return text;
}

std::string to_text(const EthAddr& mac) { return fmt::format("{:02x}", fmt::join(mac.bytes, ":")); }

Gid link_local(const EthAddr& mac) {
  Gid gid;
  gid.bytes = {0xfe, 0x80};
  gid.bytes[8] = mac.bytes[0] ^ 0x02;  // the universal/local bit is inverted
  gid.bytes[9] = mac.bytes[1];
  gid.bytes[10] = mac.bytes[2];
  gid.bytes[11] = 0xff;
  gid.bytes[12] = 0xfe;
  std::copy_n(mac.bytes.begin() + 3, 3, gid.bytes.begin() + 13);
  return gid;
}

bool is_link_local(const Gid& gid) { return gid.bytes[0] == 0xfe && (gid.bytes[1] & 0xc0) == 0x80; }

bool is_multicast(const Gid& gid) {
  if (gid.is_ipv4()) return gid.bytes[12] >= 224 && (gid.bytes[12] < 240 || gid.ipv4() == 0xffffffff);
  return gid.bytes[0] == 0xff;
}

bool is_unspecified(const Gid& gid) {
  if (gid.is_ipv4()) return gid.ipv4() == 0;
  return gid == Gid{};
}

bool is_loopback(const Gid& gid) {
  if (gid.is_ipv4()) return gid.bytes[12] == 127;
  return std::all_of(gid.bytes.begin(), gid.bytes.end() - 1, [](uint8_t b) { return b == 0; }) && gid.bytes[15] == 1;
}

Gid solicited_node(const Gid& gid) {
  Gid group;
  group.bytes = {0xff, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x01, 0xff, gid.bytes[13], gid.bytes[14], gid.bytes[15]};
  return group;
}

bool same_subnet(const Gid& a, const Gid& b, uint8_t prefix) {
  if (a.is_ipv4() != b.is_ipv4()) return false;
  const uint32_t bits = a.is_ipv4() ? uint32_t{prefix} + kMappedBits : prefix;
  const std::size_t whole = bits / 8;
  if (std::memcmp(a.bytes.data(), b.bytes.data(), whole) != 0) return false;
  if (bits % 8 == 0) return true;
  const auto mask = static_cast<uint8_t>(0xff << (8 - bits % 8));
  return ((a.bytes[whole] ^ b.bytes[whole]) & mask) == 0;
}

AddressTable::AddressTable(std::vector<InterfaceAddress> addresses, const std::vector<Gid>& gateways)
    : addresses_(std::move(addresses)) {
  for (const Gid& gateway : gateways) {
    std::optional<Gid>& slot = gateway.is_ipv4() ? gateway4_ : gateway6_;
    if (!slot) slot = gateway;
  }
}

std::vector<Gid> AddressTable::gids() const {
  std::vector<Gid> out;
  for (const InterfaceAddress& a : addresses_) out.push_back(a.gid);
  return out;
}

void AddressTable::keep(const std::vector<Gid>& gids) {
  std::erase_if(addresses_, [&](const InterfaceAddress& a) { return std::ranges::find(gids, a.gid) == gids.end(); });
}

std::vector<Gid> AddressTable::gateways() const {
  std::vector<Gid> out;
  if (gateway4_) out.push_back(*gateway4_);
  if (gateway6_) out.push_back(*gateway6_);
  return out;
}

bool AddressTable::ours(const Gid& gid) const {
  return std::ranges::any_of(addresses_, [&](const InterfaceAddress& a) { return a.gid == gid; });
}

bool AddressTable::on_link(const Gid& gid) const {
  if (!gid.is_ipv4() && is_link_local(gid)) return true;
  return std::ranges::any_of(addresses_, [&](const InterfaceAddress& a) { return same_subnet(a.gid, gid, a.prefix); });
}

Result<Gid> AddressTable::next_hop(const Gid& dgid) const {
  if (is_unspecified(dgid) || is_multicast(dgid)) {
    return fail(ENETUNREACH, fmt::format("no route to {}: it is not the unicast address of a host", to_text(dgid)));
  }
  if (on_link(dgid)) return dgid;
  const std::optional<Gid>& gateway = dgid.is_ipv4() ? gateway4_ : gateway6_;
  if (gateway) return *gateway;
  std::string ours;
  for (const InterfaceAddress& a : addresses_) {
    if (a.gid.is_ipv4() == dgid.is_ipv4())
      ours += fmt::format("{}{}/{}", ours.empty() ? "" : ", ", to_text(a.gid), a.prefix);
  }
  return fail(ENETUNREACH,
              fmt::format("no route to {}: it is not on the port's subnets ({}), and no gateway is set; set one",
                          to_text(dgid), ours.empty() ? "no address of its family" : ours));
}

std::optional<Gid> AddressTable::source_for(const Gid& neighbour) const {
  std::optional<Gid> any;
  for (const InterfaceAddress& a : addresses_) {
    if (a.gid.is_ipv4() != neighbour.is_ipv4()) continue;
    if (same_subnet(a.gid, neighbour, a.prefix)) return a.gid;
    if (!any) any = a.gid;
  }
  return any;
}

}  // namespace uroce::net
