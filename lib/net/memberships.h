// The multicast groups that a port listens to. Routers and switches learn of them by the host's part of IGMPv3 (RFC
// 3376) and MLDv2 (RFC 3810), or of the older versions while an old querier is on the link.
//
// A plain state machine: frames, time and randomness are arguments, frames go out through a callback. Groups are joined
// for any source. Not thread-safe.
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

/// The number of reports of a change (RFC 3376, 8.1), and the most time between them in each dialect (RFC 3376, 8.11;
/// RFC 2236, 8.10; RFC 2710, 7.10).
inline constexpr int kMembershipRobustness = 2;
inline constexpr Nanos kListReportInterval = std::chrono::seconds(1);
inline constexpr Nanos kSingleReportInterval = std::chrono::seconds(10);
/// The most groups, including those just left; see Memberships::join().
inline constexpr std::size_t kMaxMemberships = 8192;

struct MembershipCounters {
  Counter queries;    ///< valid queries received
  Counter malformed;  ///< broken, or against the standards
  Counter ignored;    ///< for routers
  Counter reports;    ///< packets sent
  Counter full;       ///< groups that are not reported, because there are kMaxMemberships already
};

class Memberships {
 public:
  using Send = std::function<void(std::span<const std::byte>)>;

  /// `vlan` 0: untagged. `mtu`: bytes of the largest IP packet. `send` gets each outgoing frame, valid during the call.
  Memberships(const EthAddr& mac, uint16_t vlan, std::size_t mtu, uint64_t seed, Send send);

  /// Sets the source of reports: the link-local IPv6 address, and the first IPv4 one. Without such addresses the source
  /// is
  /// :: or 0.0.0.0, as the standards allow. It also joins the solicited-node groups of `addresses` for neighbour
  /// discovery, and leaves those of earlier addresses (RFC 4861, 7.2.1).
  void set_addresses(std::span<const Gid> addresses, Nanos now);
  /// Call it once for each user of a group; poll() sends the reports. A group beyond kMaxMemberships is only counted:
  /// no report is sent, so a snooping switch may not forward the group's packets.
  void join(const Gid& group, Nanos now);
  /// Call it once for each join().
  void leave(const Gid& group, Nanos now);
  /// Call it when the link has come up: all joined groups are reported anew.
  void announce(Nanos now);

  /// Takes a frame of this port's VLAN. Returns false when it is neither IGMP nor MLD.
  bool on_frame(const EtherView& ether, Nanos now);
  /// Sends what is due at `now`.
  void poll(Nanos now);
  /// When poll() next has something to do; kNever for nothing.
  Nanos next_deadline() const;

  /// The Ethernet addresses of the groups, each once, for a port that filters multicast.
  std::vector<EthAddr> ethernet_addresses() const;
  /// Changes whenever ethernet_addresses() may change.
  uint64_t generation() const { return generation_; }
  const MembershipCounters& counters() const { return counters_; }

 private:
  struct Group {
    uint32_t users = 0;    ///< 0: left, but reports of that are still to be sent
    int reports_left = 0;  ///< reports of the last change that are still to be sent
    Nanos report_due = kNever;
    Nanos response_due = kNever;  ///< the response to a query
  };
  struct Family {
    Gid source{};
    Nanos igmp1_until{0}, single_until{0};  ///< until then an old querier counts as present
    MembershipDialect dialect = MembershipDialect::list;
    Nanos response_due = kNever;  ///< the response to a general query in the list dialect
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
  std::vector<Gid> solicited_;  ///< the solicited-node groups of our addresses
  uint64_t generation_ = 0;
  MembershipCounters counters_;
};

}  // namespace uroce::net
