#include "net/neighbours.h"

#include <algorithm>

namespace uroce::net {

Neighbours::Neighbours(const EthAddr& mac, uint16_t vlan, AddressTable table, Send send)
    : mac_(mac), vlan_(vlan), table_(std::move(table)), send_(std::move(send)) {}

void Neighbours::on_frame(std::span<const std::byte> frame, Nanos now) {
  const auto ether = parse_ether(frame);
  if (!ether) return counters_.malformed.add();
  if (ether->source == mac_) return counters_.not_for_us.add();  // our own frame, looped back by a shared port
  if (!is_of_one_host(ether->source)) return counters_.malformed.add();
  // VLAN 0 is a priority tag on an untagged frame (IEEE 802.1Q, 9.6).
  if (ether->vlan.value_or(0) != vlan_) return counters_.not_for_us.add();
  if (ether->destination != mac_ && !ether->destination.is_multicast()) return counters_.not_for_us.add();
  switch (ether->type) {
    case kEtherArp: return on_arp(*ether, now);
    case kEtherIpv4: return on_icmpv4(*ether);
    case kEtherIpv6: return on_icmpv6(*ether, now);
    default: return counters_.not_for_us.add();
  }
}

bool Neighbours::request(const Gid& neighbour, Nanos now, uint32_t user) {
  const NeighbourState known = state(neighbour);
  if (known == NeighbourState::resolving || known == NeighbourState::reachable) return true;
  const auto pending = pending_.find(user);
  if (user != kNobody && pending != pending_.end() && pending->second >= kMaxPendingOfUser) {
    counters_.deferred.add();
    return false;
  }
  Entry& entry = make_entry(neighbour);
  start_pending(entry, user);
  entry.state = NeighbourState::resolving;
  entry.tries = 1;
  entry.due = now + kResolveInterval;
  entry.learned = now;
  send_request(neighbour);
  return true;
}

std::optional<EthAddr> Neighbours::lookup(const Gid& neighbour) const {
  if (table_.ours(neighbour)) return mac_;
  const auto it = entries_.find(neighbour);
  if (it == entries_.end() || !it->second.has_mac) return std::nullopt;
  return it->second.mac;
}

NeighbourState Neighbours::state(const Gid& neighbour) const {
  if (table_.ours(neighbour)) return NeighbourState::reachable;
  const auto it = entries_.find(neighbour);
  return it == entries_.end() ? NeighbourState::unknown : it->second.state;
}

void Neighbours::poll(Nanos now) {
  if (announce_due_ <= now) {
    announce_due_ = kNever;
    for (const InterfaceAddress& a : table_.addresses()) send_announcement(a.gid);
  }
  for (auto& [neighbour, entry] : entries_) {
    if (entry.claim_due <= now) check_claim(neighbour, entry, now);
    if (entry.due > now) continue;
    if (entry.state == NeighbourState::reachable) {
      entry.state = NeighbourState::resolving;
      entry.tries = 0;
    }
    if (entry.state == NeighbourState::resolving && entry.tries < kResolveTries) {
      ++entry.tries;
      entry.due = now + kResolveInterval;
      send_request(neighbour);
      continue;
    }
    end_pending(entry);
    entry.state = NeighbourState::failed;
    entry.has_mac = false;
    entry.due = entry.claim_due = kNever;
    counters_.failed.add();
  }
}

Nanos Neighbours::next_deadline() const {
  Nanos next = announce_due_;
  for (const auto& [neighbour, entry] : entries_) next = std::min({next, entry.due, entry.claim_due});
  return next;
}

void Neighbours::announce(Nanos now) {
  for (const InterfaceAddress& a : table_.addresses()) {
    send_probe(a.gid);
    send_announcement(a.gid);
  }
  announce_due_ = now + kAnnounceInterval;
}

void Neighbours::set_table(AddressTable table, Nanos now) {
  table_ = std::move(table);
  for (auto& [neighbour, entry] : entries_) {
    if (table_.ours(neighbour)) end_pending(entry);
  }
  std::erase_if(entries_, [this](const auto& entry) { return table_.ours(entry.first); });
  std::erase_if(changed_, [this](const Gid& gid) { return !entries_.contains(gid); });
  std::erase_if(defended_, [this](const auto& entry) { return !table_.ours(entry.first); });
  for (const Gid& gateway : table_.gateways()) {
    request(gateway, now);
    if (lookup(gateway)) changed_.insert(gateway);
  }
}

std::vector<NeighbourAddress> Neighbours::take_changes() {
  std::vector<NeighbourAddress> out;
  for (const Gid& gid : std::exchange(changed_, {})) {
    if (const auto mac = lookup(gid)) out.push_back({gid, *mac});
  }
  return out;
}

// RFC 5227, 2.4 (c): keep the address and defend it. The rate is limited, so that two defenders do not flood the link.
void Neighbours::on_conflict(const Gid& ours, const EthAddr& theirs, Nanos now) {
  counters_.conflicts.add();
  const auto [defended, first] = defended_.try_emplace(ours, now);
  if (!first && now - defended->second < kDefendInterval) return;
  defended->second = now;
  conflicts_.push_back({ours, theirs});
  send_announcement(ours);
}

void Neighbours::learn(const Gid& neighbour, const EthAddr& mac, bool create, Nanos now) {
  if (!is_of_one_host(mac) || mac == mac_) return counters_.malformed.add();
  Entry* entry = nullptr;
  if (create) {
    entry = &make_entry(neighbour);
  } else if (const auto it = entries_.find(neighbour); it != entries_.end()) {
    entry = &it->second;
  } else {
    return counters_.not_for_us.add();
  }
  if (entry->has_mac && entry->mac != mac) return on_claim(*entry, mac, now);
  if (!entry->has_mac) {
    counters_.learned.add();
    changed_.insert(neighbour);
  }
  end_pending(*entry);
  const Nanos claims_from = entry->claim_due != kNever ? now + kClaimRest : entry->claims_from;
  *entry = {.state = NeighbourState::reachable,
            .has_mac = true,
            .mac = mac,
            .due = now + kReachableTime,
            .learned = now,
            .claims_from = claims_from};
}

// Everybody on the link can send this. The neighbour may have moved, or somebody wants its packets. The newest claim
// counts, so that a stranger who claims first does not keep a host from moving.
void Neighbours::on_claim(Entry& entry, const EthAddr& mac, Nanos now) {
  counters_.claims.add();
  if (now < entry.claims_from) return;
  entry.claimed = mac;
  if (entry.claim_due != kNever) return;
  entry.claim_tries = 0;
  entry.claim_due = now;  // poll() asks: a frame gets one answer at most
}

// The old Ethernet address is asked, or was silent.
void Neighbours::check_claim(const Gid& neighbour, Entry& entry, Nanos now) {
  if (entry.claim_tries < kClaimTries) {
    ++entry.claim_tries;
    entry.claim_due = now + kClaimInterval;
    return send_request(neighbour, &entry.mac);
  }
  entry.claim_due = kNever;
  entry.has_mac = false;
  learn(neighbour, EthAddr(entry.claimed), false, now);
}

Neighbours::Entry& Neighbours::make_entry(const Gid& neighbour) {
  if (const auto it = entries_.find(neighbour); it != entries_.end()) return it->second;
  if (entries_.size() >= kMaxNeighbours) make_room();
  return entries_[neighbour];
}

void Neighbours::make_room() {
  std::size_t pending = 0;
  auto most = pending_.begin();
  for (auto it = pending_.begin(); it != pending_.end(); ++it) {
    pending += it->second;
    if (it->second > most->second) most = it;
  }
  // An address that was just learned must outlive a flood of requests for silent ones.
  const bool flooded = pending > kMaxNeighbours / 2;
  const auto rank = [&](const Entry& entry) {
    if (entry.state == NeighbourState::failed) return 0;
    if (entry.state == NeighbourState::reachable) return flooded ? 2 : 1;
    if (entry.pending && entry.user == most->first) return flooded ? 1 : 2;
    return 3;
  };
  const auto sooner = [&](const auto& a, const auto& b) {
    return std::pair(rank(a.second), a.second.learned) < std::pair(rank(b.second), b.second.learned);
  };
  const auto oldest = std::ranges::min_element(entries_, sooner);
  counters_.table_full.add();
  changed_.erase(oldest->first);
  end_pending(oldest->second);
  entries_.erase(oldest);
}

void Neighbours::start_pending(Entry& entry, uint32_t user) {
  entry.pending = true;
  entry.user = user;
  ++pending_[user];
}

void Neighbours::end_pending(Entry& entry) {
  if (!std::exchange(entry.pending, false)) return;
  const auto of_user = pending_.find(entry.user);
  if (--of_user->second == 0) pending_.erase(of_user);
}

void Neighbours::send_ip(const EthAddr& to, uint16_t type, std::span<const std::byte> packet) {
  send_(make_ether(to, mac_, vlan_, type, packet));
}

}  // namespace uroce::net
