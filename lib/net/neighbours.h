// Neighbours of a port: ARP (RFC 826) and IPv6 neighbour discovery (RFC 4861), and the answer to a ping. Whether
// somebody else has one of our addresses is watched as RFC 5227 says; an address is in use meanwhile.
//
// A plain state machine: frames and time come in as arguments, frames go out through a callback. Not thread-safe.
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
/// How long an answer is trusted before it is asked for again; meanwhile it stays in use.
inline constexpr Nanos kReachableTime = std::chrono::seconds(60);
/// The second of two announcements (RFC 5227, 2.3), and how often at most an address is defended (2.4).
inline constexpr Nanos kAnnounceInterval = std::chrono::seconds(2);
inline constexpr Nanos kDefendInterval = std::chrono::seconds(10);
/// Entries at most. The oldest one that nobody waits for goes first.
inline constexpr std::size_t kMaxNeighbours = 4096;

struct NeighbourCounters {
  Counter malformed;      ///< short, wrong length, wrong checksum, or fields that the standard forbids
  Counter not_for_us;     ///< other addresses, other VLANs, other protocols
  Counter answered;       ///< ARP requests and neighbour solicitations
  Counter echo_answered;  ///< ICMP and ICMPv6
  Counter learned;        ///< entries made or changed
  Counter requests_sent;
  Counter failed;      ///< nobody answered kResolveTries times
  Counter conflicts;   ///< frames of others that claim an address of ours
  Counter table_full;  ///< an entry was given up for a new one, or a new one refused
};

enum class NeighbourState : uint8_t { unknown, resolving, reachable, failed };

/// Whom to reach where.
struct NeighbourAddress {
  Gid gid{};
  EthAddr mac{};
};

class Neighbours {
 public:
  using Send = std::function<void(std::span<const std::byte>)>;

  /// `vlan` 0: untagged. `send` gets each outgoing frame, valid during the call.
  Neighbours(const EthAddr& mac, uint16_t vlan, AddressTable table, Send send);

  const AddressTable& table() const { return table_; }
  const NeighbourCounters& counters() const { return counters_; }

  /// Asks whether anybody else has our addresses, and tells the link about them: gratuitous ARP and unsolicited
  /// advertisements, now and once more.
  void announce(Nanos now);
  /// Other addresses from now on. What is known of neighbours stays. A gateway counts as changed once its Ethernet
  /// address is known.
  void set_table(AddressTable table, Nanos now);
  /// Any frame that is not RoCE. Answers, learns, or counts and drops.
  void on_frame(std::span<const std::byte> frame, Nanos now);
  /// Starts resolving an address on the link unless it is known or under way; also retries a failed one.
  void request(const Gid& neighbour, Nanos now);
  /// The Ethernet address, if known. An aged one counts until asking again has failed.
  std::optional<EthAddr> lookup(const Gid& neighbour) const;
  NeighbourState state(const Gid& neighbour) const;
  /// Neighbours that have another Ethernet address than before, or one again, since the last call.
  std::vector<NeighbourAddress> take_changes();
  /// Who else claims an address of ours, each address at most every kDefendInterval, since the last call.
  std::vector<NeighbourAddress> take_conflicts() { return std::exchange(conflicts_, {}); }
  /// Repeats, ages and gives up what is due at `now`.
  void poll(Nanos now);
  /// When poll() next has something to do; kNever for nothing.
  Nanos next_deadline() const;

 private:
  struct Entry {
    NeighbourState state = NeighbourState::unknown;
    bool has_mac = false;
    EthAddr mac{};
    int tries = 0;
    Nanos due = kNever;  ///< next retry, or the end of trust
    Nanos learned{0};    ///< last change; the oldest goes first
  };

  void on_arp(const EtherView& ether, Nanos now);
  void on_icmpv4(const EtherView& ether);
  void on_icmpv6(const EtherView& ether, Nanos now);
  void on_solicitation(const IcmpView& icmp, const EtherView& ether, Nanos now);
  void on_advertisement(const IcmpView& icmp, Nanos now);
  void learn(const Gid& neighbour, const EthAddr& mac, bool create, Nanos now);
  Entry* make_entry(const Gid& neighbour);
  void on_conflict(const Gid& ours, const EthAddr& theirs, Nanos now);
  void send_request(const Gid& neighbour);
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
  std::set<Gid> changed_;          ///< of entries_
  std::map<Gid, Nanos> defended_;  ///< our addresses that others claimed, and when that was last told
  std::vector<NeighbourAddress> conflicts_;
  Nanos announce_due_ = kNever;
};

}  // namespace uroce::net
