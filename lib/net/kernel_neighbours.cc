#include "net/kernel_neighbours.h"

#include <linux/neighbour.h>

#include <algorithm>
#include <vector>

namespace uroce::net {

namespace {

constexpr uint16_t kValidStates = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
/// States in which the kernel has confirmed the neighbour lately, is about to, or never needs to.
constexpr uint16_t kFreshStates = kValidStates & ~NUD_STALE;

}  // namespace

void KernelNeighbours::take(const NeighbourNews& news, uint64_t reading, Nanos now) {
  const auto known = neighbours_.find(news.gid);
  const auto hop = hops_.find(news.gid);
  if (known == neighbours_.end()) {
    if (news.removed) return;
    if (neighbours_.size() >= kMaxKernelNeighbours && hop == hops_.end()) return counters_.table_full.add();
  }
  Neighbour& neighbour = known != neighbours_.end() ? known->second : neighbours_[news.gid];
  const auto mac = news.removed || (news.state & kValidStates) == 0 ? std::nullopt : news.mac;
  const bool learned = mac && mac != neighbour.mac;
  neighbour = {.mac = mac, .state = news.state, .read = reading};
  if (learned) counters_.learned.add();
  if (hop != hops_.end()) {
    learned_ = learned_ || learned;
    take_hop(hop->second, news, mac.has_value(), now);
  }
  if (news.removed) neighbours_.erase(known);
}

void KernelNeighbours::take_hop(Hop& hop, const NeighbourNews& news, bool known, Nanos now) {
  if (known) {
    const bool looked_for = hop.failed || hop.resolve_until != kNever;
    hop.failed = false;
    hop.resolve_until = kNever;
    hop.pause = kFreshTime;
    if (looked_for) hop.fresh_until = now + kFreshTime;
  } else if (news.state == NUD_FAILED && !news.removed) {
    give_up(hop, now);
  } else if (news.removed && hop.resolve_until == kNever) {
    hop.fresh_until = std::min(hop.fresh_until, now + kKernelAnswerTime);
  }
}

void KernelNeighbours::forget_unread(uint64_t reading, Nanos now) {
  std::vector<Gid> gone;
  for (const auto& [gid, neighbour] : neighbours_) {
    if (neighbour.read != reading) gone.push_back(gid);
  }
  for (const Gid& gid : gone) take({.interface = interface_.index, .gid = gid, .removed = true}, reading, now);
  std::erase_if(neighbours_, [](const auto& one) { return one.second.state == NUD_NONE; });
}

void KernelNeighbours::use(const Gid& gid, Nanos now) {
  Hop& hop = hops_[gid];
  ++hop.users;
  if (addresses_.has(gid)) return;
  if (hop.users == 1) hop.fresh_until = now + kFreshTime;
  // One datagram is enough for all destinations behind a gateway.
  if (fresh(gid) || hop.resolve_until != kNever || (hop.users > 1 && lookup(gid))) return;
  hop.failed = false;
  probe(gid, hop, now);
}

void KernelNeighbours::leave(const Gid& gid) {
  const auto found = hops_.find(gid);
  if (found != hops_.end() && --found->second.users == 0) hops_.erase(found);
}

void KernelNeighbours::look_for(const Gid& gid, Nanos now) {
  Hop& hop = hops_[gid];
  if (lookup(gid) || hop.resolve_until != kNever) return;
  hop.failed = false;
  hop.pause = kFreshTime;
  probe(gid, hop, now);
}

void KernelNeighbours::probe(const Gid& gid, Hop& hop, Nanos now) {
  counters_.probes.add();
  hop.fresh_until = now + kFreshTime;
  const bool known = lookup(gid).has_value();
  if (!known) hop.resolve_until = now + kKernelResolveTime;
  if (probe_(gid) != 0 && !known) give_up(hop, now);
}

void KernelNeighbours::give_up(Hop& hop, Nanos now) {
  if (!hop.failed) counters_.failed.add();
  hop.failed = true;
  hop.resolve_until = kNever;
  hop.fresh_until = now + hop.pause;
  hop.pause = std::min(2 * hop.pause, kLongestPause);
}

std::optional<EthAddr> KernelNeighbours::lookup(const Gid& gid) const {
  if (addresses_.has(gid)) return interface_.mac;
  const auto found = neighbours_.find(gid);
  return found != neighbours_.end() ? found->second.mac : std::nullopt;
}

bool KernelNeighbours::fresh(const Gid& gid) const {
  const auto found = neighbours_.find(gid);
  return found != neighbours_.end() && (found->second.state & kFreshStates) != 0;
}

bool KernelNeighbours::failed(const Gid& gid) const {
  const auto found = hops_.find(gid);
  return found != hops_.end() && found->second.failed;
}

void KernelNeighbours::poll(Nanos now) {
  for (auto& [gid, hop] : hops_) {
    if (hop.resolve_until <= now) give_up(hop, now);
    if (hop.fresh_until > now) continue;
    hop.fresh_until = now + kFreshTime;
    if (!fresh(gid) && !addresses_.has(gid)) probe(gid, hop, now);
  }
}

Nanos KernelNeighbours::next_deadline() const {
  Nanos next = kNever;
  for (const auto& [gid, hop] : hops_) next = std::min({next, hop.resolve_until, hop.fresh_until});
  return next;
}

}  // namespace uroce::net
