// The multicast groups that a port listens to, as its link's routers and switches must know: the host's part of IGMPv3
// (RFC 3376) and MLDv2 (RFC 3810), and of their elders where one of those asks.
//
// A plain state machine: frames, time and randomness come in as arguments, frames go out through a callback. Groups are
// joined for any source. Not thread-safe.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include <uroce/types.h>

#include "base/counter.h"
#include "base/random.h"
#include "base/time.h"
#include "net/membership_wire.h"

namespace uroce::net {

/// How often a change is told (RFC 3376, 8.1), and how far apart at most in each dialect (RFC 3376, 8.11; RFC 2236,
/// 8.10; RFC 2710, 7.10).
inline constexpr int kMembershipRobustness = 2;
inline constexpr Nanos kListReportInterval = std::chrono::seconds(1);
inline constexpr Nanos kSingleReportInterval = std::chrono::seconds(10);
/// Groups at most, those just left included; see Memberships::join().
inline constexpr std::size_t kMaxMemberships = 8192;

struct MembershipCounters {
  Counter queries;    ///< heard and understood
  Counter malformed;  ///< broken, or as the standards forbid
  Counter ignored;    ///< for routers
  Counter reports;    ///< packets sent
  Counter full;       ///< groups that routers are not told of, as there are kMaxMemberships
};

class Memberships {
 public:
  using Send = std::function<void(std::span<const std::byte>)>;

  /// `vlan` 0: untagged. `mtu`: bytes of the largest IP packet. `send` gets each outgoing frame, valid during the call.
  Memberships(const EthAddr& mac, uint16_t vlan, std::size_t mtu, uint64_t seed, Send send);

  /// Whom reports come from: the link-local IPv6 address, and any IPv4 one; where none is given, from 0.0.0.0 and :: as
  /// the standards allow. The groups that `addresses` need for neighbour discovery are joined, those of former ones
  /// left (RFC 4861, 7.2.1).
  void set_addresses(std::span<const Gid> addresses, Nanos now);
  /// Once for each user of a group; poll() tells the link. A group beyond kMaxMemberships is counted, and heard of no
  /// more than a switch lets through by itself.
  void join(const Gid& group, Nanos now);
  /// Once for each join().
  void leave(const Gid& group, Nanos now);
  /// The link has come up: all that is joined is told anew.
  void announce(Nanos now);

  /// A frame for this port's VLAN. False: neither IGMP nor MLD, and somebody else's to handle.
  bool on_frame(const EtherView& ether, Nanos now);
  /// Sends what is due at `now`.
  void poll(Nanos now);
  /// When poll() next has something to do; kNever for nothing.
  Nanos next_deadline() const;

  /// Ethernet addresses of the groups, each once, for a port that filters.
  std::vector<EthAddr> ethernet_addresses() const;
  /// Differs when ethernet_addresses() may.
  uint64_t generation() const { return generation_; }
  const MembershipCounters& counters() const { return counters_; }

 private:
  struct Group {
    uint32_t users = 0;    ///< 0: left, and still to be told
    int reports_left = 0;  ///< of the last change, still to be sent
    Nanos report_due = kNever;
    Nanos response_due = kNever;  ///< to a query
  };
  struct Family {
    Gid source{};
    Nanos igmp1_until{0}, single_until{0};  ///< an old querier is taken to be there until then
    MembershipDialect dialect = MembershipDialect::list;
    Nanos response_due = kNever;  ///< to a general query of the list dialect
  };

  Family& family(bool ipv4) { return families_[ipv4 ? 0 : 1]; }
  void choose_dialect(bool ipv4, Nanos now);
  void on_query(const MembershipQuery& query, Nanos now);
  void change(Group& group, Nanos now);
  void forget_left();
  Nanos within(Nanos limit) {
    return Nanos(static_cast<int64_t>(random_.below(static_cast<uint64_t>(limit.count())) + 1));
  }
  void poll_list(bool ipv4, Nanos now);
  void poll_single(bool ipv4, Nanos now);
  void send_records(bool ipv4, std::span<const GroupRecord> records);
  void send(const std::vector<std::byte>& packet);
  static bool is_reported(const Gid& group);

  const EthAddr mac_;
  const uint16_t vlan_;
  const std::size_t mtu_;
  const Send send_;
  Random random_;
  std::array<Family, 2> families_;  ///< IPv4, IPv6
  std::map<Gid, Group> groups_;
  std::vector<Gid> solicited_;  ///< joined for our own addresses
  uint64_t generation_ = 0;
  MembershipCounters counters_;
};

}  // namespace uroce::net
