#include "net/membership_wire.h"

#include <algorithm>

#include "base/bytes.h"
#include "net/address.h"

namespace uroce::net {

namespace {

using std::chrono::milliseconds;

constexpr uint8_t kIgmpQuery = 0x11;
constexpr uint8_t kIgmpReport1 = 0x12;
constexpr uint8_t kIgmpReport2 = 0x16;
constexpr uint8_t kIgmpLeave = 0x17;
constexpr uint8_t kIgmpReport3 = 0x22;
constexpr uint8_t kMldQuery = 130;
constexpr uint8_t kMldReport1 = 131;
constexpr uint8_t kMldDone = 132;
constexpr uint8_t kMldReport2 = 143;

constexpr std::size_t kIgmpBytes = 8;
constexpr std::size_t kIgmp3QueryBytes = 12;
constexpr std::size_t kMldBytes = 24;
constexpr std::size_t kMld2QueryBytes = 28;
constexpr std::size_t kIgmpRecordBytes = 8;
constexpr std::size_t kMldRecordBytes = 20;
constexpr std::size_t kReportBytes = 8;  // before the records

constexpr Nanos kDefaultInterval = std::chrono::seconds(125);           // RFC 3376, 8.2
constexpr Nanos kIgmp1MaxResponse = std::chrono::milliseconds(10'000);  // RFC 2236, 4

const Gid kAllSystems = Gid::from_ipv4(0xe0000001);
const Gid kAllRouters = Gid::from_ipv4(0xe0000002);
const Gid kIgmp3Routers = Gid::from_ipv4(0xe0000016);

Gid link_scope(uint8_t last) {
  Gid gid;
  gid.bytes = {0xff, 0x02};
  gid.bytes[15] = last;
  return gid;
}

/// A value with the top bit set has an exponent of 3 bits and a mantissa (RFC 3376, 4.1.1; RFC 3810, 5.1.3).
uint32_t decode(uint32_t code, unsigned mantissa_bits) {
  const uint32_t top = 1u << (mantissa_bits + 3);
  if (code < top) return code;
  const uint32_t mantissa = code & ((1u << mantissa_bits) - 1);
  return (mantissa | 1u << mantissa_bits) << ((code >> mantissa_bits & 7) + 3);
}

Nanos query_interval(uint8_t code) {
  return code == 0 ? kDefaultInterval : Nanos(std::chrono::seconds(decode(code, 4)));
}

std::expected<MembershipMessage, NoMembership> parse_igmp(const IpView& ip) {
  const auto bytes = ip.payload;
  InetChecksum sum;
  sum.add(bytes);
  if (bytes.size() < kIgmpBytes || sum.value() != 0) return std::unexpected(NoMembership::malformed);
  const Gid group = Gid::from_ipv4(load_be32(&bytes[4]));
  const uint8_t type = load8(&bytes[0]);
  if (type == kIgmpReport1 || type == kIgmpReport2) {
    if (!is_multicast(group)) return std::unexpected(NoMembership::malformed);
    return OverheardReport{group};
  }
  if (type != kIgmpQuery) return std::unexpected(NoMembership::ignored);
  MembershipQuery query{.ipv4 = true, .group = group, .interval = kDefaultInterval};
  const uint8_t code = load8(&bytes[1]);
  // RFC 3376, 7.1: the length tells the version. Other lengths are invalid.
  if (bytes.size() == kIgmpBytes) {
    query.dialect = code == 0 ? MembershipDialect::igmp1 : MembershipDialect::single;
    query.max_response = code == 0 ? kIgmp1MaxResponse : Nanos(milliseconds(100) * code);
    if (code == 0) query.group = Gid::from_ipv4(0);  // RFC 1112: IGMPv1 has general queries only; ignore the field
  } else if (bytes.size() < kIgmp3QueryBytes) {
    return std::unexpected(NoMembership::malformed);
  } else {
    if (bytes.size() < kIgmp3QueryBytes + std::size_t{load_be16(&bytes[10])} * 4) {
      return std::unexpected(NoMembership::malformed);
    }
    query.max_response = milliseconds(100) * decode(code, 4);
    query.interval = query_interval(load8(&bytes[9]));
  }
  const bool general = is_unspecified(query.group);
  // RFC 3376, 9.1: a general query must go to all systems, so that nobody can send one to a single host.
  if (general ? ip.destination != kAllSystems : !is_multicast(query.group)) {
    return std::unexpected(NoMembership::malformed);
  }
  return query;
}

std::expected<MembershipMessage, NoMembership> parse_mld(const IpView& ip) {
  const auto bytes = ip.payload;
  if (bytes.size() < 4) return std::unexpected(NoMembership::malformed);
  const uint8_t type = load8(&bytes[0]);
  if (type != kMldQuery && type != kMldReport1 && type != kMldDone && type != kMldReport2) {
    return std::unexpected(NoMembership::foreign);
  }
  InetChecksum sum;
  sum.add_ipv6_pseudo(ip.source, ip.destination, static_cast<uint32_t>(bytes.size()), kProtocolIcmpv6);
  sum.add(bytes);
  if (sum.value() != 0) return std::unexpected(NoMembership::malformed);
  if (type == kMldDone || type == kMldReport2) return std::unexpected(NoMembership::ignored);
  // RFC 3810, 6.2 and 7.4; RFC 2710, 3: the source must be link-local, and router alert set. A reporter that has no
  // address yet may use ::.
  const bool from_link = is_link_local(ip.source) || (type == kMldReport1 && is_unspecified(ip.source));
  if (!from_link || ip.hop_limit != 1 || !ip.router_alert || bytes.size() < kMldBytes) {
    return std::unexpected(NoMembership::malformed);
  }
  Gid group;
  std::memcpy(group.bytes.data(), &bytes[8], group.bytes.size());
  if (group.is_ipv4()) return std::unexpected(NoMembership::malformed);
  if (type == kMldReport1) {
    if (!is_multicast(group)) return std::unexpected(NoMembership::malformed);
    return OverheardReport{group};
  }
  MembershipQuery query{.ipv4 = false, .group = group, .interval = kDefaultInterval};
  const uint16_t code = load_be16(&bytes[4]);
  if (bytes.size() == kMldBytes) {
    query.dialect = MembershipDialect::single;
    query.max_response = milliseconds(code);
  } else if (bytes.size() < kMld2QueryBytes ||
             bytes.size() < kMld2QueryBytes + std::size_t{load_be16(&bytes[26])} * 16) {
    return std::unexpected(NoMembership::malformed);
  } else {
    query.max_response = milliseconds(decode(code, 12));
    query.interval = query_interval(load8(&bytes[25]));
  }
  if (is_unspecified(group) ? ip.destination != link_scope(1) : !is_multicast(group)) {
    return std::unexpected(NoMembership::malformed);
  }
  return query;
}

std::vector<std::byte> single_message(const Gid& source, const Gid& group, const Gid& to, uint8_t type) {
  if (group.is_ipv4()) {
    std::vector<std::byte> message(kIgmpBytes);
    store8(&message[0], type);
    store_be32(&message[4], group.ipv4());
    return make_igmp(source, to, std::move(message));
  }
  std::vector<std::byte> message(kMldBytes);
  store8(&message[0], type);
  std::memcpy(&message[8], group.bytes.data(), group.bytes.size());
  return make_mld(source, to, std::move(message));
}

}  // namespace

std::expected<MembershipMessage, NoMembership> parse_membership(const EtherView& ether) {
  if (ether.type != kEtherIpv4 && ether.type != kEtherIpv6) return std::unexpected(NoMembership::foreign);
  bool malformed = false;
  const auto ip =
      ether.type == kEtherIpv4 ? parse_ipv4(ether.payload, malformed) : parse_ipv6(ether.payload, malformed);
  if (!ip) return std::unexpected(NoMembership::foreign);  // Neighbours counts malformed packets
  if (ether.type == kEtherIpv4) {
    return ip->protocol == kProtocolIgmp ? parse_igmp(*ip) : std::unexpected(NoMembership::foreign);
  }
  return ip->protocol == kProtocolIcmpv6 ? parse_mld(*ip) : std::unexpected(NoMembership::foreign);
}

std::size_t records_per_report(bool ipv4, std::size_t mtu) {
  const std::size_t headers = (ipv4 ? 24 : 48) + kReportBytes;
  const std::size_t record = ipv4 ? kIgmpRecordBytes : kMldRecordBytes;
  return std::max<std::size_t>(1, (std::max(mtu, headers) - headers) / record);
}

std::vector<std::byte> make_list_report(const Gid& source, std::span<const GroupRecord> records) {
  const bool ipv4 = records.front().group.is_ipv4();
  const std::size_t record_bytes = ipv4 ? kIgmpRecordBytes : kMldRecordBytes;
  std::vector<std::byte> message(kReportBytes + records.size() * record_bytes);
  store8(&message[0], ipv4 ? kIgmpReport3 : kMldReport2);
  store_be16(&message[6], static_cast<uint16_t>(records.size()));
  std::byte* at = &message[kReportBytes];
  for (const GroupRecord& record : records) {
    store8(at, static_cast<uint8_t>(record.type));
    if (ipv4) {
      store_be32(at + 4, record.group.ipv4());
    } else {
      std::memcpy(at + 4, record.group.bytes.data(), record.group.bytes.size());
    }
    at += record_bytes;
  }
  if (ipv4) return make_igmp(source, kIgmp3Routers, std::move(message));
  return make_mld(source, link_scope(0x16), std::move(message));
}

std::vector<std::byte> make_single_report(const Gid& source, const Gid& group, MembershipDialect dialect) {
  const uint8_t igmp = dialect == MembershipDialect::igmp1 ? kIgmpReport1 : kIgmpReport2;
  return single_message(source, group, group, group.is_ipv4() ? igmp : kMldReport1);
}

std::vector<std::byte> make_leave(const Gid& source, const Gid& group) {
  if (group.is_ipv4()) return single_message(source, group, kAllRouters, kIgmpLeave);
  return single_message(source, group, link_scope(2), kMldDone);
}

Gid destination_of(std::span<const std::byte> packet) {
  if (load8(&packet[0]) >> 4 == 4) return Gid::from_ipv4(load_be32(&packet[16]));
  Gid gid;
  std::memcpy(gid.bytes.data(), &packet[24], gid.bytes.size());
  return gid;
}

}  // namespace uroce::net
