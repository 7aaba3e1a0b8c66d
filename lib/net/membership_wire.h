// IGMP (RFC 2236, RFC 3376) and MLD (RFC 2710, RFC 3810) on the wire, as far as a host reads and writes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>
#include <variant>
#include <vector>

#include <uroce/types.h>

#include "base/time.h"
#include "net/l2.h"

namespace uroce::net {

/// What the querier of a link understands; the oldest one heard lately decides.
enum class MembershipDialect : uint8_t {
  igmp1,   ///< IGMPv1: a report for each group, no word at leaving
  single,  ///< IGMPv2, MLDv1: a report or a farewell for each group
  list,    ///< IGMPv3, MLDv2: reports of many records
};

struct MembershipQuery {
  bool ipv4 = true;
  MembershipDialect dialect = MembershipDialect::list;
  Gid group{};  ///< unspecified (0.0.0.0 or ::) asks for all
  Nanos max_response{0};
  Nanos interval{0};  ///< of the querier's general queries; IGMPv1, IGMPv2 and MLDv1 do not say: the default
};
/// Somebody else's answer in the single dialect.
struct OverheardReport {
  Gid group{};
};
enum class NoMembership : uint8_t {
  foreign,    ///< neither IGMP nor MLD
  ignored,    ///< for routers, or of no meaning to a host
  malformed,  ///< broken, or sent as the standards forbid
};
using MembershipMessage = std::variant<MembershipQuery, OverheardReport>;
std::expected<MembershipMessage, NoMembership> parse_membership(const EtherView& ether);

/// Of reports in the list dialect; all of theirs without sources (RFC 3376, 4.2.12; RFC 3810, 5.2.12).
enum class RecordType : uint8_t { is_exclude = 2, to_include = 3, to_exclude = 4 };
struct GroupRecord {
  RecordType type = RecordType::is_exclude;
  Gid group{};
};
/// How many records fit into a packet of `mtu` bytes, at least 1.
std::size_t records_per_report(bool ipv4, std::size_t mtu);
/// IP packets. `source`: an address of ours, link-local for IPv6. Records are of one family and not empty.
std::vector<std::byte> make_list_report(const Gid& source, std::span<const GroupRecord> records);
/// `dialect` is not list.
std::vector<std::byte> make_single_report(const Gid& source, const Gid& group, MembershipDialect dialect);
std::vector<std::byte> make_leave(const Gid& source, const Gid& group);
/// Where a packet of the above goes, from its header.
Gid destination_of(std::span<const std::byte> packet);

}  // namespace uroce::net
