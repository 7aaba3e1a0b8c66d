#include "net/memberships.h"

#include <algorithm>

#include "net/address.h"
#include "wire/packet.h"

namespace uroce::net {

namespace {
/// The shortest response time, so that a flood of queries with response time 0 gets few responses.
constexpr Nanos kSoonestResponse = std::chrono::milliseconds(10);
}  // namespace

Memberships::Memberships(const EthAddr& mac, uint16_t vlan, std::size_t mtu, uint64_t seed, Send send)
    : mac_(mac), vlan_(vlan), mtu_(mtu), send_(std::move(send)), random_(seed) {
  family(true).source = Gid::from_ipv4(0);
}

void Memberships::set_addresses(std::span<const Gid> addresses, Nanos now) {
  const auto first = [&](auto wanted, const Gid& otherwise) {
    const auto found = std::ranges::find_if(addresses, wanted);
    return found == addresses.end() ? otherwise : *found;
  };
  family(true).source = first([](const Gid& gid) { return gid.is_ipv4(); }, Gid::from_ipv4(0));
  family(false).source = first(is_link_local, Gid{});
  std::vector<Gid> wanted;
  for (const Gid& gid : addresses) {
    if (!gid.is_ipv4()) wanted.push_back(solicited_node(gid));
  }
  std::ranges::sort(wanted);
  wanted.erase(std::ranges::unique(wanted).begin(), wanted.end());
  for (const Gid& group : wanted) {
    if (!std::ranges::binary_search(solicited_, group)) join(group, now);
  }
  for (const Gid& group : solicited_) {
    if (!std::ranges::binary_search(wanted, group)) leave(group, now);
  }
  solicited_ = std::move(wanted);
}

// RFC 3376, 5; RFC 3810, 6: the all-systems (all-nodes) group and groups of interface-local scope are not reported.
bool Memberships::is_reported(const Gid& group) {
  if (group.is_ipv4()) return group.ipv4() != 0xe0000001;
  const uint8_t scope = group.bytes[1] & 0x0f;
  if (scope <= 1) return false;
  Gid all_nodes;
  all_nodes.bytes = {0xff, 0x02};
  all_nodes.bytes[15] = 1;
  return group != all_nodes;
}

void Memberships::change(Group& group, Nanos now) {
  group.reports_left = kMembershipRobustness;
  group.report_due = now;
}

void Memberships::join(const Gid& group, Nanos now) {
  choose_dialect(group.is_ipv4(), now);  // first, because a change of dialect cancels pending reports
  auto it = groups_.find(group);
  if (it == groups_.end()) {
    if (groups_.size() >= kMaxMemberships) return counters_.full.add();
    it = groups_.emplace(group, Group{}).first;
  }
  if (it->second.users++ != 0) return;
  ++generation_;
  if (is_reported(group)) change(it->second, now);
}

void Memberships::leave(const Gid& group, Nanos now) {
  choose_dialect(group.is_ipv4(), now);
  const auto it = groups_.find(group);
  if (it == groups_.end() || it->second.users == 0) return;  // join() found the table full
  if (--it->second.users != 0) return;
  ++generation_;
  it->second.response_due = kNever;
  switch (family(group.is_ipv4()).dialect) {
    case MembershipDialect::igmp1: it->second.reports_left = 0; break;  // IGMPv1 has no leave message
    case MembershipDialect::single:
      change(it->second, now);
      it->second.reports_left = 1;  // RFC 2236, 3; RFC 2710, 4
      break;
    case MembershipDialect::list: change(it->second, now); break;
  }
  if (!is_reported(group)) it->second.reports_left = 0;
  if (it->second.reports_left == 0) groups_.erase(it);
}

void Memberships::announce(Nanos now) {
  for (const bool ipv4 : {true, false}) choose_dialect(ipv4, now);
  for (auto& [gid, group] : groups_) {
    if (group.users != 0 && is_reported(gid)) change(group, now);
  }
}

bool Memberships::on_frame(const EtherView& ether, Nanos now) {
  const auto message = parse_membership(ether);
  if (!message) {
    if (message.error() == NoMembership::foreign) return false;
    (message.error() == NoMembership::malformed ? counters_.malformed : counters_.ignored).add();
    return true;
  }
  if (const auto* query = std::get_if<MembershipQuery>(&*message)) {
    counters_.queries.add();
    on_query(*query, now);
    return true;
  }
  // RFC 2236, 3 and RFC 2710, 4: another host's report is enough for an old querier, so ours is cancelled.
  const Gid& group = std::get<OverheardReport>(*message).group;
  choose_dialect(group.is_ipv4(), now);
  const auto it = groups_.find(group);
  if (it != groups_.end() && it->second.users != 0 && family(group.is_ipv4()).dialect != MembershipDialect::list) {
    it->second.response_due = kNever;
  }
  return true;
}

void Memberships::choose_dialect(bool ipv4, Nanos now) {
  Family& f = family(ipv4);
  MembershipDialect wanted = MembershipDialect::list;
  if (now < f.single_until) wanted = MembershipDialect::single;
  if (now < f.igmp1_until) wanted = MembershipDialect::igmp1;
  if (wanted == f.dialect) return;
  f.dialect = wanted;
  // RFC 3376, 7.2.1; RFC 3810, 8.2.1: pending reports and responses are cancelled.
  f.response_due = kNever;
  for (auto& [gid, group] : groups_) {
    if (gid.is_ipv4() != ipv4) continue;
    group.reports_left = 0;
    group.report_due = group.response_due = kNever;
  }
  forget_left();
}

void Memberships::forget_left() {
  std::erase_if(groups_, [](const auto& entry) { return entry.second.users == 0 && entry.second.reports_left == 0; });
}

void Memberships::on_query(const MembershipQuery& query, Nanos now) {
  Family& f = family(query.ipv4);
  // The time for which an old querier counts as present: RFC 3376, 8.12; RFC 3810, 9.12.
  const Nanos present = now + kMembershipRobustness * query.interval + query.max_response;
  if (query.dialect == MembershipDialect::igmp1) f.igmp1_until = present;
  if (query.dialect == MembershipDialect::single) f.single_until = present;
  choose_dialect(query.ipv4, now);

  const bool general = is_unspecified(query.group);
  const Nanos limit = std::max(query.max_response, kSoonestResponse);
  if (general && f.dialect == MembershipDialect::list) {
    f.response_due = std::min(f.response_due, now + within(limit));
    return;
  }
  // A query for a group and sources gets the same response as one for the group: our members want all sources.
  for (auto& [gid, group] : groups_) {
    if (gid.is_ipv4() != query.ipv4 || group.users == 0 || !is_reported(gid)) continue;
    if (general || gid == query.group) group.response_due = std::min(group.response_due, now + within(limit));
  }
}

void Memberships::poll(Nanos now) {
  for (const bool ipv4 : {true, false}) {
    choose_dialect(ipv4, now);
    if (family(ipv4).dialect == MembershipDialect::list) {
      poll_list(ipv4, now);
    } else {
      poll_single(ipv4, now);
    }
  }
}

void Memberships::poll_list(bool ipv4, Nanos now) {
  Family& f = family(ipv4);
  std::vector<GroupRecord> changes;
  std::vector<GroupRecord> current;
  const bool all = f.response_due <= now;
  if (all) f.response_due = kNever;
  const Nanos again = now + within(kListReportInterval);
  for (auto& [gid, group] : groups_) {
    if (gid.is_ipv4() != ipv4 || !is_reported(gid)) continue;
    if (group.report_due <= now) {
      changes.push_back({group.users != 0 ? RecordType::to_exclude : RecordType::to_include, gid});
      group.report_due = --group.reports_left > 0 ? again : kNever;
    }
    if (group.users == 0 || (!all && group.response_due > now)) continue;
    group.response_due = kNever;
    current.push_back({RecordType::is_exclude, gid});
  }
  forget_left();
  send_records(ipv4, changes);
  send_records(ipv4, current);
}

void Memberships::poll_single(bool ipv4, Nanos now) {
  const Family& f = family(ipv4);
  for (auto& [gid, group] : groups_) {
    if (gid.is_ipv4() != ipv4) continue;
    const bool reporting = group.report_due <= now;
    if (reporting) group.report_due = --group.reports_left > 0 ? now + within(kSingleReportInterval) : kNever;
    if (reporting && group.users == 0) send(make_leave(f.source, gid));
    if (group.users == 0 || (!reporting && group.response_due > now)) continue;
    group.response_due = kNever;
    send(make_single_report(f.source, gid, f.dialect));
  }
  forget_left();
}

Nanos Memberships::next_deadline() const {
  Nanos next = std::min(families_[0].response_due, families_[1].response_due);
  for (const auto& [gid, group] : groups_) next = std::min({next, group.report_due, group.response_due});
  return next;
}

std::vector<EthAddr> Memberships::ethernet_addresses() const {
  std::vector<EthAddr> out;
  for (const auto& [gid, group] : groups_) {
    if (group.users != 0) out.push_back(wire::multicast_mac(gid));
  }
  std::ranges::sort(out, {}, &EthAddr::bytes);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

void Memberships::send_records(bool ipv4, std::span<const GroupRecord> records) {
  const std::size_t most = records_per_report(ipv4, mtu_);
  for (std::size_t at = 0; at < records.size(); at += most) {
    send(make_list_report(family(ipv4).source, records.subspan(at, std::min(most, records.size() - at))));
  }
}

void Memberships::send(const std::vector<std::byte>& packet) {
  const Gid to = destination_of(packet);
  counters_.reports.add();
  send_(make_ether(wire::multicast_mac(to), mac_, vlan_, to.is_ipv4() ? kEtherIpv4 : kEtherIpv6, packet));
}

}  // namespace uroce::net
