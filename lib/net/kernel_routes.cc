// Routes through the interface, and the next hops that they lead to.
#include <fmt/format.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "net/kernel_tables.h"

namespace uroce::net {

KernelTables::Destination& KernelTables::destination_of(const Gid& dgid) {
  if (!destinations_.contains(dgid) && destinations_.size() == kMaxDestinations) {
    const auto oldest = std::ranges::min_element(destinations_, {}, [](const auto& d) { return d.second.used; });
    counters_.table_full.add();
    forget_hop(oldest->second);
    stale_.erase(oldest->first);
    destinations_.erase(oldest);
  }
  return destinations_[dgid];
}

void KernelTables::request(const Gid& dgid, Nanos now) {
  if (ours(dgid)) return;
  Destination& destination = destination_of(dgid);
  destination.used = ++uses_;
  if (routes_due_ == kNever) routes_due_ = now + kFreshTime;
  if (destination.hop) {
    Hop& hop = hops_[*destination.hop];
    if (!lookup(*destination.hop) && hop.resolve_until == kNever) {
      hop.failed = false;
      hop.pause = kFreshTime;
      probe(*destination.hop, hop, now);
    }
  }
  ask({dgid, false});
}

void KernelTables::ask(const Question& question) {
  // Each has its answer; the kernel loses none unless it lacks memory.
  if (questions_.size() >= kMaxDestinations) questions_.clear();
  const uint32_t sequence = ++sequence_;
  questions_.emplace(sequence, question);
  kernel_.ask(ask_route(question.dgid, interface_.index, sequence, question.entry));
}

void KernelTables::ask_routes_again(Nanos now) {
  if (destinations_.empty()) return;
  routes_due_ = std::min(routes_due_, std::max(now, routes_asked_ + kRouteInterval));
}

void KernelTables::take_route(const RouteNews& news, const Question& question, Nanos now) {
  const Gid& dgid = question.dgid;
  const auto refuse = [&](std::string_view why) {
    set_error(dgid, {ENETUNREACH, fmt::format("no route to {}: {}", to_text(dgid), why)});
  };
  if (news.type == RTN_LOCAL) return refuse("it is an address of another interface of this host");
  if (news.type != RTN_UNICAST) return refuse("it is not the unicast address of a host");
  if (question.entry) {
    const auto known = destinations_.find(dgid);
    return set_way(dgid, dgid, known != destinations_.end() ? known->second.source : std::nullopt, now);
  }
  if (news.interface != interface_.index) return refuse("the kernel's route leads through another interface");
  if (news.encapsulated) return refuse("the kernel's route leads through a tunnel");
  // For an interface, the kernel takes an IPv4 address without a route for one on the link.
  if (dgid.is_ipv4() && !news.gateway && !on_subnet(dgid)) {
    if (const auto known = destinations_.find(dgid); known != destinations_.end()) known->second.source = news.source;
    return ask({dgid, true});
  }
  set_way(dgid, news.gateway.value_or(dgid), news.source, now);
}

void KernelTables::take_refusal(int code, const Question& question) {
  set_error(
      question.dgid,
      {ENETUNREACH, fmt::format("no route to {}: the kernel says '{}'; see `ip route get {} oif {}`",
                                to_text(question.dgid), std::strerror(code), to_text(question.dgid), interface_.name)});
}

void KernelTables::set_way(const Gid& dgid, const Gid& hop, std::optional<Gid> source, Nanos now) {
  const auto found = destinations_.find(dgid);
  if (found == destinations_.end()) return;
  Destination& destination = found->second;
  destination.error.reset();
  destination.source = source;
  if (destination.hop == hop) return;
  forget_hop(destination);
  destination.hop = hop;
  changed_ = true;
  Hop& used = hops_[hop];
  ++used.users;
  if (ours(hop)) return;
  if (used.users == 1) used.fresh_until = now + kFreshTime;
  // One datagram is enough for all destinations behind a gateway.
  if (fresh(hop) || used.resolve_until != kNever || (used.users > 1 && lookup(hop))) return;
  used.failed = false;
  probe(hop, used, now);
}

void KernelTables::set_error(const Gid& dgid, Error error) {
  const auto found = destinations_.find(dgid);
  if (found == destinations_.end()) return;
  forget_hop(found->second);
  found->second.error = std::move(error);
}

void KernelTables::forget_hop(Destination& destination) {
  if (!destination.hop) return;
  const auto found = hops_.find(*destination.hop);
  if (found != hops_.end() && --found->second.users == 0) hops_.erase(found);
  destination.hop.reset();
}

Result<Gid> KernelTables::next_hop(const Gid& dgid) const {
  if (ours(dgid)) return dgid;
  if (const auto found = destinations_.find(dgid); found != destinations_.end()) {
    if (found->second.error) return std::unexpected(*found->second.error);
    if (found->second.hop) return *found->second.hop;
  }
  return fail(EAGAIN, fmt::format("the kernel has not said yet which way leads to {}; try again", to_text(dgid)));
}

std::optional<Gid> KernelTables::source_for(const Gid& dgid) const {
  if (ours(dgid)) return dgid;
  const auto found = destinations_.find(dgid);
  if (found == destinations_.end() || !found->second.hop) return std::nullopt;
  if (found->second.source && ours(*found->second.source)) return found->second.source;
  // The kernel names a source unless the route's own belongs to another interface. A deprecated address comes last.
  const auto fitness = [&](const Gid& gid) {
    const Address& address = addresses_.at(gid);
    const bool preferred = (address.flags & IFA_F_DEPRECATED) == 0;
    const bool reaches = is_link_local(gid) == is_link_local(dgid);
    return std::array{reaches, preferred, same_subnet(gid, dgid, address.prefix)};
  };
  std::optional<Gid> best;
  for (const Gid& gid : addresses()) {
    if (gid.is_ipv4() != dgid.is_ipv4()) continue;
    if (!best || fitness(gid) > fitness(*best)) best = gid;
  }
  return best;
}

std::map<Gid, EthAddr> KernelTables::take_changes() {
  std::map<Gid, EthAddr> out;
  if (!std::exchange(changed_, false)) return out;
  for (auto& [dgid, destination] : destinations_) {
    const auto mac = destination.hop ? lookup(*destination.hop) : std::nullopt;
    if (!mac || mac == destination.told) continue;
    destination.told = mac;
    out.emplace(dgid, *mac);
  }
  return out;
}

}  // namespace uroce::net
