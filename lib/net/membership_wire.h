// The messages of IGMP (RFC 2236, RFC 3376) and MLD (RFC 2710, RFC 3810) that a host reads and writes.
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

/// The protocol version to send in. The oldest querier heard recently on the link determines it.
enum class MembershipDialect : uint8_t {
  igmp1,   ///< IGMPv1: a report for each group, no message on leaving
  single,  ///< IGMPv2, MLDv1: a report for each group, a leave (done) message for each
  list,    ///< IGMPv3, MLDv2: reports of many records
};

struct MembershipQuery {
  bool ipv4 = true;
  MembershipDialect dialect = MembershipDialect::list;
  Gid group{};  ///< unspecified (0.0.0.0 or ::): a general query, for all groups
  Nanos max_response{0};
  Nanos interval{0};  ///< the querier's query interval; the default for IGMPv1, IGMPv2 and MLDv1, which do not carry it
};
/// Another host's report in IGMPv1, IGMPv2 or MLDv1.
struct OverheardReport {
  Gid group{};
};
enum class NoMembership : uint8_t {
  foreign,    ///< neither IGMP nor MLD
  ignored,    ///< for routers, or without meaning for a host
  malformed,  ///< broken, or against the standards
};
using MembershipMessage = std::variant<MembershipQuery, OverheardReport>;
std::expected<MembershipMessage, NoMembership> parse_membership(const EtherView& ether);

/// Record types of IGMPv3 and MLDv2 reports (RFC 3376, 4.2.12; RFC 3810, 5.2.12). The records never list sources.
enum class RecordType : uint8_t { is_exclude = 2, to_include = 3, to_exclude = 4 };
struct GroupRecord {
  RecordType type = RecordType::is_exclude;
  Gid group{};
};
/// The number of records that fit into a packet of `mtu` bytes, at least 1.
std::size_t records_per_report(bool ipv4, std::size_t mtu);
/// IP packets. `source`: an address of the port, link-local for IPv6. `records` must be of one family and not empty.
std::vector<std::byte> make_list_report(const Gid& source, std::span<const GroupRecord> records);
/// `dialect` must not be list.
std::vector<std::byte> make_single_report(const Gid& source, const Gid& group, MembershipDialect dialect);
std::vector<std::byte> make_leave(const Gid& source, const Gid& group);
/// The IP destination in such a packet's header.
Gid destination_of(std::span<const std::byte> packet);

}  // namespace uroce::net
