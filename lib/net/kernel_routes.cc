#include "net/kernel_routes.h"

#include <fmt/format.h>
#include <linux/rtnetlink.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "net/address.h"

namespace uroce::net {

namespace {

/// Most routes that one poll() asks for, so that their answers fit a socket's buffer.
constexpr int kRoutesPerPoll = 64;

}  // namespace

KernelRoutes::Destination& KernelRoutes::destination_of(const Gid& dgid) {
  if (!destinations_.contains(dgid) && destinations_.size() == kMaxDestinations) {
    const auto oldest = std::ranges::min_element(destinations_, {}, [](const auto& d) { return d.second.used; });
    counters_.table_full.add();
    forget_hop(oldest->second);
    stale_.erase(oldest->first);
    destinations_.erase(oldest);
  }
  return destinations_[dgid];
}

void KernelRoutes::request(const Gid& dgid, Nanos now) {
  if (addresses_.has(dgid)) return;
  Destination& destination = destination_of(dgid);
  destination.used = ++uses_;
  if (due_ == kNever) due_ = now + kFreshTime;
  if (destination.hop) neighbours_.look_for(*destination.hop, now);
  ask({dgid, false});
}

void KernelRoutes::ask(const Question& question) {
  // Each has its answer; the kernel loses none unless it lacks memory.
  if (questions_.size() >= kMaxDestinations) questions_.clear();
  const uint32_t number = requests_.next_number();
  questions_.emplace(number, question);
  requests_.send(ask_route(question.dgid, interface_.index, number, question.entry));
}

void KernelRoutes::ask_again(Nanos now) {
  if (destinations_.empty()) return;
  due_ = std::min(due_, std::max(now, asked_ + kRouteInterval));
}

void KernelRoutes::poll(Nanos now) {
  if (due_ <= now) {
    for (const auto& [dgid, destination] : destinations_) stale_.insert(stale_.end(), dgid);
    asked_ = now;
    due_ = destinations_.empty() ? kNever : now + kFreshTime;
  }
  for (int i = 0; i < kRoutesPerPoll && !stale_.empty(); ++i) {
    ask({*stale_.begin(), false});
    stale_.erase(stale_.begin());
  }
}

void KernelRoutes::take_answer(const KernelMessage& message, Nanos now) {
  const auto found = questions_.find(message.sequence);
  if (found == questions_.end()) return;
  const Question question = found->second;
  questions_.erase(found);
  if (const auto* route = std::get_if<RouteNews>(&message.news)) take_route(*route, question, now);
  if (const auto* end = std::get_if<AnswerEnd>(&message.news)) take_refusal(end->error, question);
}

void KernelRoutes::take_route(const RouteNews& news, const Question& question, Nanos now) {
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
  if (dgid.is_ipv4() && !news.gateway && !addresses_.on_subnet(dgid)) {
    if (const auto known = destinations_.find(dgid); known != destinations_.end()) known->second.source = news.source;
    return ask({dgid, true});
  }
  set_way(dgid, news.gateway.value_or(dgid), news.source, now);
}

void KernelRoutes::take_refusal(int code, const Question& question) {
  set_error(
      question.dgid,
      {ENETUNREACH, fmt::format("no route to {}: the kernel says '{}'; see `ip route get {} oif {}`",
                                to_text(question.dgid), std::strerror(code), to_text(question.dgid), interface_.name)});
}

void KernelRoutes::set_way(const Gid& dgid, const Gid& hop, std::optional<Gid> source, Nanos now) {
  const auto found = destinations_.find(dgid);
  if (found == destinations_.end()) return;
  Destination& destination = found->second;
  destination.error.reset();
  destination.source = source;
  if (destination.hop == hop) return;
  forget_hop(destination);
  destination.hop = hop;
  changed_ = true;
  neighbours_.use(hop, now);
}

void KernelRoutes::set_error(const Gid& dgid, Error error) {
  const auto found = destinations_.find(dgid);
  if (found == destinations_.end()) return;
  forget_hop(found->second);
  found->second.error = std::move(error);
}

void KernelRoutes::forget_hop(Destination& destination) {
  if (!destination.hop) return;
  neighbours_.leave(*destination.hop);
  destination.hop.reset();
}

Result<Gid> KernelRoutes::next_hop(const Gid& dgid) const {
  if (addresses_.has(dgid)) return dgid;
  if (const auto found = destinations_.find(dgid); found != destinations_.end()) {
    if (found->second.error) return std::unexpected(*found->second.error);
    if (found->second.hop) return *found->second.hop;
  }
  return fail(EAGAIN, fmt::format("the kernel has not said yet which way leads to {}; try again", to_text(dgid)));
}

std::optional<Gid> KernelRoutes::source_for(const Gid& dgid) const {
  if (addresses_.has(dgid)) return dgid;
  const auto found = destinations_.find(dgid);
  if (found == destinations_.end() || !found->second.hop) return std::nullopt;
  if (found->second.source && addresses_.has(*found->second.source)) return found->second.source;
  // The kernel names a source unless the route's own belongs to another interface.
  return addresses_.source_for(dgid);
}

std::map<Gid, EthAddr> KernelRoutes::take_changes() {
  std::map<Gid, EthAddr> out;
  const bool learned = neighbours_.take_learned();
  if (!std::exchange(changed_, false) && !learned) return out;
  for (auto& [dgid, destination] : destinations_) {
    const auto mac = destination.hop ? neighbours_.lookup(*destination.hop) : std::nullopt;
    if (!mac || mac == destination.told) continue;
    destination.told = mac;
    out.emplace(dgid, *mac);
  }
  return out;
}

}  // namespace uroce::net
