// Reading and writing the layers below ARP, ICMP, IGMP and MLD: Ethernet with 802.1Q, the Internet checksum, IPv4 and
// IPv6 headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <uroce/types.h>

#include "wire/ethernet.h"

namespace uroce::net {

inline constexpr uint16_t kEtherIpv4 = 0x0800;
inline constexpr uint16_t kEtherArp = 0x0806;
inline constexpr uint16_t kEtherVlan = 0x8100;
inline constexpr uint16_t kEtherIpv6 = 0x86dd;
inline constexpr uint8_t kNeighbourSolicitation = 135;  ///< type of an ICMPv6 message (RFC 4861, 4.3)
using wire::kProtocolIcmpv6;
using wire::kProtocolIgmp;
inline constexpr EthAddr kBroadcastMac{{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}};

/// Whether `mac` can be the address of one host: neither a group's nor zero.
constexpr bool is_of_one_host(const EthAddr& mac) { return !mac.is_multicast() && mac != EthAddr{}; }

/// Ones'-complement sums in progress (RFC 1071).
class InetChecksum {
 public:
  void add(std::span<const std::byte> bytes);
  /// The IPv6 pseudo header (RFC 8200, 8.1).
  void add_ipv6_pseudo(const Gid& source, const Gid& destination, uint32_t length, uint8_t next_header);
  /// The checksum. Sum the field as 0 to compute it. If the field is included and right, the value is 0.
  uint16_t value() const;

 private:
  uint64_t sum_ = 0;
};

struct EtherView {
  EthAddr destination{};
  EthAddr source{};
  std::optional<uint16_t> vlan{};  ///< id only, 12 bits
  uint16_t type = 0;
  std::span<const std::byte> payload{};
};
/// Returns nullopt when the frame is shorter than its headers.
std::optional<EtherView> parse_ether(std::span<const std::byte> frame);

/// An IPv4 packet that is not a fragment, or an IPv6 packet without extension headers other than hop-by-hop options.
struct IpView {
  Gid source{};
  Gid destination{};
  uint8_t hop_limit = 0;
  uint8_t protocol = 0;
  bool hop_by_hop = false;    ///< IPv6 hop-by-hop options came before the payload
  bool router_alert = false;  ///< RFC 2113, RFC 2711
  std::span<const std::byte> payload{};
};
/// When there is no result, `malformed` tells whether the packet is broken, or only of another kind. The IPv4 header
/// checksum is verified. An IPv6 packet with a multicast source or an
/// IPv4-mapped address is broken.
std::optional<IpView> parse_ipv4(std::span<const std::byte> packet, bool& malformed);
std::optional<IpView> parse_ipv6(std::span<const std::byte> packet, bool& malformed);

/// An IPv4 or IPv6 packet with an ICMP or ICMPv6 message.
struct IcmpView {
  Gid source{};
  Gid destination{};
  uint8_t hop_limit = 0;
  std::span<const std::byte> message{};  ///< type, code, checksum, body; at least 8 bytes, checksum verified
};
/// Return nullopt for anything but an ICMP packet that is not a fragment and has right lengths and checksums.
/// `malformed` is as above.
std::optional<IcmpView> parse_icmpv4(std::span<const std::byte> packet, bool& malformed);
std::optional<IcmpView> parse_icmpv6(std::span<const std::byte> packet, bool& malformed);

/// A frame, with `vlan` 0 untagged.
std::vector<std::byte> make_ether(const EthAddr& destination, const EthAddr& source, uint16_t vlan, uint16_t type,
                                  std::span<const std::byte> payload);
/// Whether routers may fragment an IPv4 packet; those of IPv6 never do.
enum class Fragments : uint8_t { allowed, forbidden };
/// IP packets. They fill in the checksum field in `message`.
std::vector<std::byte> make_icmpv4(const Gid& source, const Gid& destination, std::vector<std::byte> message,
                                   Fragments fragments = Fragments::allowed);
std::vector<std::byte> make_icmpv6(const Gid& source, const Gid& destination, uint8_t hop_limit,
                                   std::vector<std::byte> message);
/// IP packets for IGMP (RFC 3376, 4) and MLD (RFC 3810, 5), with hop limit 1 and router alert as hosts must send them.
/// They fill in the message's checksum field.
std::vector<std::byte> make_igmp(const Gid& source, const Gid& destination, std::vector<std::byte> message);
std::vector<std::byte> make_mld(const Gid& source, const Gid& destination, std::vector<std::byte> message);

}  // namespace uroce::net
