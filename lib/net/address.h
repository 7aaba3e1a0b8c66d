// A port's IP addresses: their text form, and the routing decision.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/peer_list.h"

namespace uroce::net {

/// An address of the port, and the length of its subnet prefix.
struct InterfaceAddress {
  Gid gid{};           ///< IPv4 as ::ffff:a.b.c.d
  uint8_t prefix = 0;  ///< prefix length in bits: 0..32 for IPv4, 0..128 for IPv6
  friend bool operator==(const InterfaceAddress&, const InterfaceAddress&) = default;
};

/// Reads "192.0.2.1/24" or "2001:db8::1/64". Errors: EINVAL (not an address with a prefix length, or not a host's
/// address: multicast, loopback, unspecified, IPv4-mapped IPv6).
Result<InterfaceAddress> parse_interface_address(std::string_view text);
/// Reads several of them, separated by commas; spaces around each are ignored. Errors: as above, and EINVAL for an
/// address given twice, or none at all.
Result<std::vector<InterfaceAddress>> parse_interface_addresses(std::string_view text);
/// Reads "192.0.2.0/24", "2001:db8::/32" or single addresses, separated by commas; nothing for an empty text. Errors:
/// EINVAL.
Result<std::vector<Prefix>> parse_prefixes(std::string_view text);
/// Reads "192.0.2.1" or "2001:db8::1". Errors: EINVAL.
Result<Gid> parse_address(std::string_view text);

/// "192.0.2.1" for IPv4-mapped GIDs, else IPv6 text (RFC 5952).
std::string to_text(const Gid& gid);
/// "02:00:5e:10:00:01".
std::string to_text(const EthAddr& mac);

/// fe80::/64 with the modified EUI-64 of `mac` (RFC 4291, appendix A).
Gid link_local(const EthAddr& mac);
bool is_link_local(const Gid& gid);
/// IPv4 224.0.0.0/4 and 255.255.255.255, IPv6 ff00::/8.
bool is_multicast(const Gid& gid);
bool is_unspecified(const Gid& gid);
/// IPv4 127.0.0.0/8, IPv6 ::1.
bool is_loopback(const Gid& gid);
/// The solicited-node group ff02::1:ffXX:XXXX of an IPv6 address (RFC 4291, 2.7.1).
Gid solicited_node(const Gid& gid);
/// True when `a` and `b` have the same family and the same first `prefix` bits.
bool same_subnet(const Gid& a, const Gid& b, uint8_t prefix);

/// A port's addresses and default gateways.
class AddressTable {
 public:
  /// `gateways`: the first of each family is used.
  AddressTable(std::vector<InterfaceAddress> addresses, const std::vector<Gid>& gateways);

  const std::vector<InterfaceAddress>& addresses() const { return addresses_; }
  std::vector<Gid> gids() const;
  bool ours(const Gid& gid) const;
  /// Drops all addresses but `gids`.
  void keep(const std::vector<Gid>& gids);
  /// At most one of each family.
  std::vector<Gid> gateways() const;
  friend bool operator==(const AddressTable&, const AddressTable&) = default;
  /// The neighbour that packets to `dgid` go to: `dgid` itself if it is on the link, else the gateway. Errors:
  /// ENETUNREACH.
  Result<Gid> next_hop(const Gid& dgid) const;
  /// The source address for packets to a neighbour on the link; nullopt when the port has none of its family.
  std::optional<Gid> source_for(const Gid& neighbour) const;

 private:
  bool on_link(const Gid& gid) const;

  std::vector<InterfaceAddress> addresses_;
  std::optional<Gid> gateway4_;
  std::optional<Gid> gateway6_;
};

}  // namespace uroce::net
