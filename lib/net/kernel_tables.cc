#include "net/kernel_tables.h"

#include <linux/if_addr.h>
#include <linux/neighbour.h>

#include <algorithm>
#include <type_traits>

namespace uroce::net {

namespace {

/// Most routes that one poll() asks for, so that their answers fit a socket's buffer.
constexpr int kRoutesPerPoll = 64;

constexpr uint16_t kValidStates = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT | NUD_NOARP;
/// States in which the kernel has confirmed the neighbour lately, is about to, or never needs to.
constexpr uint16_t kFreshStates = kValidStates & ~NUD_STALE;

}  // namespace

KernelTables::KernelTables(LinkIdentity interface, Kernel kernel)
    : interface_(std::move(interface)), kernel_(std::move(kernel)) {}

// --- Reading whole tables -----------------------------------------------------------------------------------------

void KernelTables::read_all(Nanos now) {
  if (asking_ != Asking::nothing) {
    again_ = true;  // the kernel reads out one table at a time
    return;
  }
  again_ = false;
  ++reading_;
  begin_reading(Asking::addresses, now);
}

void KernelTables::move_to(uint32_t index, Nanos now) {
  interface_.index = index;
  read_all(now);
  ask_routes_again(now);
}

void KernelTables::on_overrun(Nanos now) {
  counters_.overruns.add();
  questions_.clear();
  ask_routes_again(now);
  read_all(now);
}

void KernelTables::begin_reading(Asking what, Nanos now) {
  asking_ = what;
  asking_sequence_ = ++sequence_;
  interrupted_ = false;
  reading_until_ = now + kKernelAnswerTime;
  const auto table = what == Asking::addresses ? KernelTable::addresses : KernelTable::neighbours;
  kernel_.ask(ask_table(table, interface_.index, asking_sequence_));
}

// Entries that the reading did not mention are no longer there.
void KernelTables::end_reading(Nanos now) {
  if (interrupted_) return begin_reading(asking_, now);
  if (asking_ == Asking::addresses) {
    if (std::erase_if(addresses_, [&](const auto& a) { return a.second.read != reading_; }) != 0) ++generation_;
    return begin_reading(Asking::neighbours, now);
  }
  for (auto& [gid, neighbour] : neighbours_) {
    if (neighbour.read != reading_) take({.interface = interface_.index, .gid = gid, .removed = true}, now);
  }
  std::erase_if(neighbours_, [](const auto& n) { return n.second.state == NUD_NONE; });
  asking_ = Asking::nothing;
  reading_until_ = kNever;
  if (again_) read_all(now);
}

// --- Messages -----------------------------------------------------------------------------------------------------

void KernelTables::on_news(std::span<const std::byte> datagram, Nanos now) {
  const bool whole = parse_rtnetlink(datagram, [&](const KernelMessage& message) {
    counters_.messages.add();
    std::visit(
        [&]<class News>(const News& news) {
          if constexpr (std::is_same_v<News, AddressNews>) {
            take(news);
            if (news.interface == interface_.index) ask_routes_again(now);
          } else if constexpr (std::is_same_v<News, NeighbourNews>) {
            if (news.interface != interface_.index) return;
            take(news, now);
            if (news.removed) neighbours_.erase(news.gid);
          } else if constexpr (std::is_same_v<News, LinkNews>) {
            take(news);
          } else if constexpr (!std::is_same_v<News, AnswerEnd>) {
            ask_routes_again(now);
          }
        },
        message.news);
  });
  if (!whole) counters_.malformed.add();
}

void KernelTables::on_answers(std::span<const std::byte> datagram, Nanos now) {
  const bool whole = parse_rtnetlink(datagram, [&](const KernelMessage& message) {
    counters_.messages.add();
    take_answer(message, now);
  });
  if (!whole) counters_.malformed.add();
}

void KernelTables::take_answer(const KernelMessage& message, Nanos now) {
  if (asking_ != Asking::nothing && message.sequence == asking_sequence_) {
    reading_until_ = now + kKernelAnswerTime;
    interrupted_ = interrupted_ || message.interrupted;
    if (const auto* address = std::get_if<AddressNews>(&message.news)) take(*address);
    if (const auto* neighbour = std::get_if<NeighbourNews>(&message.news)) take(*neighbour, now);
    // After a refusal poll() tries again.
    if (const auto* end = std::get_if<AnswerEnd>(&message.news); end != nullptr && end->error == 0) end_reading(now);
    return;
  }
  const auto found = questions_.find(message.sequence);
  if (found == questions_.end()) return;
  const Question question = found->second;
  questions_.erase(found);
  if (const auto* route = std::get_if<RouteNews>(&message.news)) take_route(*route, question, now);
  if (const auto* end = std::get_if<AnswerEnd>(&message.news)) take_refusal(end->error, question);
}

// --- Addresses ----------------------------------------------------------------------------------------------------

bool KernelTables::usable(const Address& address) {
  if ((address.flags & IFA_F_DADFAILED) != 0) return false;
  return (address.flags & IFA_F_TENTATIVE) == 0 || (address.flags & IFA_F_OPTIMISTIC) != 0;
}

void KernelTables::take(const AddressNews& news) {
  const Gid& gid = news.address.gid;
  if (news.interface != interface_.index || is_unspecified(gid) || is_multicast(gid) || is_loopback(gid)) return;
  if (news.removed) {
    if (addresses_.erase(gid) != 0) ++generation_;
    return;
  }
  if (!addresses_.contains(gid) && addresses_.size() == kMaxKernelAddresses) return counters_.table_full.add();
  const auto [at, added] = addresses_.try_emplace(gid);
  Address& address = at->second;
  const bool was_usable = !added && usable(address);
  if (added) address.order = ++order_;
  address.prefix = news.address.prefix;
  address.flags = news.flags;
  address.read = reading_;
  if (usable(address) != was_usable) ++generation_;
}

std::vector<Gid> KernelTables::addresses() const {
  std::vector<std::pair<uint64_t, Gid>> ordered;
  for (const auto& [gid, address] : addresses_) {
    if (!usable(address)) continue;
    const uint64_t kind = gid.is_ipv4() ? 0 : is_link_local(gid) ? 2 : 1;
    ordered.emplace_back(kind << 62 | address.order, gid);
  }
  std::ranges::sort(ordered);
  std::vector<Gid> out;
  for (const auto& [order, gid] : ordered) out.push_back(gid);
  return out;
}

bool KernelTables::on_subnet(const Gid& gid) const {
  return std::ranges::any_of(addresses_, [&](const auto& a) { return same_subnet(a.first, gid, a.second.prefix); });
}

void KernelTables::take(const LinkNews& news) {
  if (news.interface != interface_.index || (news.mac == link_.mac && news.mtu == link_.mtu)) return;
  link_ = news;
  link_changed_ = true;
}

std::optional<LinkNews> KernelTables::take_link() {
  return std::exchange(link_changed_, false) ? std::optional(link_) : std::nullopt;
}

// --- Neighbours ---------------------------------------------------------------------------------------------------

// A removed neighbour stays with the state NUD_NONE, until the caller erases it.
void KernelTables::take(const NeighbourNews& news, Nanos now) {
  const auto known = neighbours_.find(news.gid);
  if (known == neighbours_.end()) {
    if (news.removed) return;
    if (neighbours_.size() >= kMaxKernelNeighbours && !hops_.contains(news.gid)) return counters_.table_full.add();
  }
  Neighbour& neighbour = known != neighbours_.end() ? known->second : neighbours_[news.gid];
  const auto mac = news.removed || (news.state & kValidStates) == 0 ? std::nullopt : news.mac;
  const bool learned = mac && mac != neighbour.mac;
  neighbour = {.mac = mac, .state = news.removed ? uint16_t{NUD_NONE} : news.state, .read = reading_};
  if (learned) counters_.learned.add();
  const auto found = hops_.find(news.gid);
  if (found == hops_.end()) return;
  Hop& hop = found->second;
  changed_ = changed_ || learned;
  if (mac) {
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

void KernelTables::give_up(Hop& hop, Nanos now) {
  if (!hop.failed) counters_.failed.add();
  hop.failed = true;
  hop.resolve_until = kNever;
  hop.fresh_until = now + hop.pause;
  hop.pause = std::min(2 * hop.pause, kLongestPause);
}

void KernelTables::probe(const Gid& gid, Hop& hop, Nanos now) {
  counters_.probes.add();
  hop.fresh_until = now + kFreshTime;
  const bool known = lookup(gid).has_value();
  if (!known) hop.resolve_until = now + kKernelResolveTime;
  if (kernel_.probe(gid) != 0 && !known) give_up(hop, now);
}

std::optional<EthAddr> KernelTables::lookup(const Gid& hop) const {
  if (ours(hop)) return interface_.mac;
  const auto found = neighbours_.find(hop);
  return found != neighbours_.end() ? found->second.mac : std::nullopt;
}

bool KernelTables::fresh(const Gid& hop) const {
  const auto found = neighbours_.find(hop);
  return found != neighbours_.end() && (found->second.state & kFreshStates) != 0;
}

bool KernelTables::failed(const Gid& hop) const {
  const auto found = hops_.find(hop);
  return found != hops_.end() && found->second.failed;
}

// --- Time ---------------------------------------------------------------------------------------------------------

void KernelTables::poll(Nanos now) {
  if (reading_until_ <= now) {
    asking_ = Asking::nothing;
    reading_until_ = kNever;
    on_overrun(now);
  }
  if (routes_due_ <= now) {
    for (const auto& [dgid, destination] : destinations_) stale_.insert(stale_.end(), dgid);
    routes_asked_ = now;
    routes_due_ = destinations_.empty() ? kNever : now + kFreshTime;
  }
  for (int i = 0; i < kRoutesPerPoll && !stale_.empty(); ++i) {
    ask({*stale_.begin(), false});
    stale_.erase(stale_.begin());
  }
  for (auto& [gid, hop] : hops_) {
    if (hop.resolve_until <= now) give_up(hop, now);
    if (hop.fresh_until > now) continue;
    hop.fresh_until = now + kFreshTime;
    if (!fresh(gid) && !ours(gid)) probe(gid, hop, now);
  }
}

Nanos KernelTables::next_deadline() const {
  if (!stale_.empty()) return Nanos(0);
  Nanos next = std::min(reading_until_, routes_due_);
  for (const auto& [gid, hop] : hops_) next = std::min({next, hop.resolve_until, hop.fresh_until});
  return next;
}

}  // namespace uroce::net
