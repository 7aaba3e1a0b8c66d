// A port's neighbour cache: ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861). It also replies to pings, and
// detects other hosts that use one of our addresses (RFC 5227). Our addresses are in use from the start, not only after
// a probe.
//
// A plain state machine: frames and time are arguments, frames go out through a callback. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <uroce/types.h>

#include "base/counter.h"
#include "base/time.h"
#include "net/address.h"
#include "net/l2.h"

namespace uroce::net {

inline constexpr Nanos kResolveInterval = std::chrono::seconds(1);
inline constexpr int kResolveTries = 3;
/// How long an entry is valid before it is resolved again. It stays in use meanwhile.
inline constexpr Nanos kReachableTime = std::chrono::seconds(60);
/// A neighbour whose Ethernet address another host claims is asked at the old one, so many times and so far apart. Only
/// when it is silent there the claim is believed: a forged ARP packet or advertisement diverts nothing.
inline constexpr int kClaimTries = 2;
inline constexpr Nanos kClaimInterval = std::chrono::milliseconds(200);
/// The least time between two such questions about one neighbour, once it has answered.
inline constexpr Nanos kClaimRest = std::chrono::seconds(5);
/// The time between the two announcements (RFC 5227, 2.3), and the least time between two defences of an address (2.4).
inline constexpr Nanos kAnnounceInterval = std::chrono::seconds(2);
inline constexpr Nanos kDefendInterval = std::chrono::seconds(10);
/// The most entries. When the cache is full, a new entry replaces the oldest that failed. Without one it replaces the
/// oldest known one, or while over half of the cache is being resolved, the oldest of these, of the user who has most.
inline constexpr std::size_t kMaxNeighbours = 4096;
/// The most addresses that are resolved for one user at a time, so that a user who asks for silent addresses cannot
/// fill the cache, nor the link with requests: each address costs one a second.
inline constexpr std::size_t kMaxPendingOfUser = 256;

struct NeighbourCounters {
  Counter malformed;      ///< short, wrong length, wrong checksum, or fields that the standard forbids
  Counter not_for_us;     ///< other addresses, other VLANs, other protocols
  Counter answered;       ///< ARP requests and neighbour solicitations
  Counter echo_answered;  ///< ICMP and ICMPv6
  Counter learned;        ///< entries created or changed
  Counter requests_sent;
  Counter failed;      ///< no answer to kResolveTries requests
  Counter conflicts;   ///< frames of other hosts that claim one of our addresses
  Counter table_full;  ///< an old entry was replaced
  Counter claims;      ///< another Ethernet address for a known neighbour
  Counter deferred;    ///< requests of users who had kMaxPendingOfUser under way
};

enum class NeighbourState : uint8_t { unknown, resolving, reachable, failed };

/// A neighbour and its Ethernet address.
struct NeighbourAddress {
  Gid gid{};
  EthAddr mac{};
};

class Neighbours {
 public:
  using Send = std::function<void(std::span<const std::byte>)>;
  static constexpr uint32_t kNobody = UINT32_MAX;

  /// `vlan` 0: untagged. `send` gets each outgoing frame, valid during the call.
  Neighbours(const EthAddr& mac, uint16_t vlan, AddressTable table, Send send);

  const AddressTable& table() const { return table_; }
  const NeighbourCounters& counters() const { return counters_; }

  /// Probes for other hosts with our addresses, and announces our addresses by gratuitous ARP and unsolicited
  /// advertisements. It announces now and once more later.
  void announce(Nanos now);
  /// Replaces our addresses. Neighbour entries stay. A gateway whose Ethernet address is known is reported by
  /// take_changes(); the others are resolved now.
  void set_table(AddressTable table, Nanos now);
  /// Takes any frame that is not RoCE, and answers it, learns from it, or counts and drops it.
  void on_frame(std::span<const std::byte> frame, Nanos now);
  /// Starts to resolve an address on the link for `user`, a uid, unless it is known or being resolved. It retries a
  /// failed one. False, without a request, while kMaxPendingOfUser addresses of the user are being resolved; kNobody,
  /// the process itself, has no limit.
  bool request(const Gid& neighbour, Nanos now, uint32_t user = kNobody);
  /// The Ethernet address, if known. An expired entry is used until it could not be resolved again.
  std::optional<EthAddr> lookup(const Gid& neighbour) const;
  NeighbourState state(const Gid& neighbour) const;
  /// The neighbours whose Ethernet address became known or changed since the last call.
  std::vector<NeighbourAddress> take_changes();
  /// Other hosts that claimed one of our addresses since the last call, each address at most once in kDefendInterval.
  std::vector<NeighbourAddress> take_conflicts() { return std::exchange(conflicts_, {}); }
  /// Sends the requests and announcements that are due at `now`, and expires entries.
  void poll(Nanos now);
  /// When poll() next has something to do; kNever for nothing.
  Nanos next_deadline() const;

 private:
  struct Entry {
    NeighbourState state = NeighbourState::unknown;
    bool has_mac = false;
    bool pending = false;  ///< counted in pending_, until the first answer or failure
    uint32_t user = kNobody;
    EthAddr mac{};
    int tries = 0;
    Nanos due = kNever;  ///< next retry, or when the entry expires
    Nanos learned{0};    ///< last change
    // Another host's claim to be this neighbour.
    EthAddr claimed{};
    int claim_tries = 0;
    Nanos claim_due = kNever;  ///< when `mac` is asked again, or the claim is believed; kNever: there is none
    Nanos claims_from{0};      ///< until then claims are ignored
  };

  void on_arp(const EtherView& ether, Nanos now);
  void on_icmpv4(const EtherView& ether);
  void on_icmpv6(const EtherView& ether, Nanos now);
  void on_solicitation(const IcmpView& icmp, const EtherView& ether, Nanos now);
  void on_advertisement(const IcmpView& icmp, Nanos now);
  void learn(const Gid& neighbour, const EthAddr& mac, bool create, Nanos now);
  void on_claim(Entry& entry, const EthAddr& mac, Nanos now);
  void check_claim(const Gid& neighbour, Entry& entry, Nanos now);
  Entry& make_entry(const Gid& neighbour);
  void make_room();
  void start_pending(Entry& entry, uint32_t user);
  void end_pending(Entry& entry);
  void on_conflict(const Gid& ours, const EthAddr& theirs, Nanos now);
  /// To all hosts, or to `at` alone.
  void send_request(const Gid& neighbour, const EthAddr* at = nullptr);
  void send_probe(const Gid& ours);
  void send_announcement(const Gid& ours);
  void send_arp(uint16_t operation, const EthAddr& to, const Gid& sender, const EthAddr& target_mac, const Gid& target);
  void send_advertisement(const EthAddr& to, const Gid& destination, const Gid& target, bool solicited);
  void send_ip(const EthAddr& to, uint16_t type, std::span<const std::byte> packet);

  const EthAddr mac_;
  const uint16_t vlan_;
  AddressTable table_;
  const Send send_;
  NeighbourCounters counters_;
  std::map<Gid, Entry> entries_;
  std::map<uint32_t, std::size_t> pending_;  ///< by user: how many entries are being resolved for the first time
  std::set<Gid> changed_;                    ///< keys of entries_, for take_changes()
  std::map<Gid, Nanos> defended_;            ///< our addresses that others claimed, and when each was last defended
  std::vector<NeighbourAddress> conflicts_;
  Nanos announce_due_ = kNever;
};

}  // namespace uroce::net
