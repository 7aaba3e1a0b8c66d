#include "pmd_glue/kernel_neighbourhood.h"

#include <fmt/format.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>

#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"
#include "wire/packet.h"

namespace uroce::glue {

namespace {
/// Most datagrams in one step, so that a flood of changes does not starve other ports.
constexpr int kDatagramsPerStep = 256;
constexpr Nanos kRetry = std::chrono::milliseconds(5);

std::string list_of(std::span<const Gid> gids) {
  constexpr std::size_t kMost = 8;  // of a line in the log
  std::string list;
  for (const Gid& gid : gids.first(std::min(gids.size(), kMost))) {
    list += (list.empty() ? "" : ", ") + net::to_text(gid);
  }
  return gids.size() > kMost ? fmt::format("{} and {} more", list, gids.size() - kMost) : list;
}
}  // namespace

Result<std::unique_ptr<KernelNeighbourhood>> KernelNeighbourhood::open(Port& port, Waker& service,
                                                                       const TscClock& clock) {
  const unsigned index = port.interface_index();
  char name[IF_NAMESIZE] = "";
  if (index == 0 || if_indextoname(index, name) == nullptr) {
    return fail(EINVAL,
                fmt::format("port {} ({}) is on no interface of the kernel, so that it cannot have the kernel's "
                            "addresses; list its own (device.addresses)",
                            port.name(), port.driver()));
  }
  auto netlink = KernelNetlink::open(index);
  if (!netlink) {
    return fail(netlink.error().code,
                fmt::format("port {}: cannot ask the kernel for the addresses of {}: {}; list its own "
                            "(device.addresses)",
                            port.name(), name, netlink.error().text));
  }
  service.watch((*netlink)->news_descriptor());
  std::unique_ptr<KernelNeighbourhood> made(new KernelNeighbourhood(
      port, service, clock, {.index = index, .name = name, .mac = port.mac()}, std::move(*netlink)));
  if (made->addresses().empty()) {
    note(netdev_is_loopback(name)
             ? fmt::format("port {}: {} is the loopback interface: it has no address for a device, and no peer; name "
                           "another one that `ip link` lists, or for two devices without any, start uroced --demo",
                           port.name(), name)
             : fmt::format("port {}: interface {} has no address yet; the device gets one when the interface does",
                           port.name(), name));
  }
  return made;
}

KernelNeighbourhood::KernelNeighbourhood(Port& port, Waker& service, const TscClock& clock, net::LinkIdentity interface,
                                         std::unique_ptr<KernelNetlink> netlink)
    : Neighbourhood(port, service, clock),
      interface_(interface),
      interface_returns_(port.interface_returns()),
      netlink_(std::move(netlink)),
      tables_(std::move(interface), {.ask = [this](std::span<const std::byte> request) { netlink_->ask(request); },
                                     .probe = [this](const Gid& hop) { return netlink_->knock(hop); }}) {
  tables_.read_all(clock_.now());
  receive();
  told_ = tables_.addresses();
  told_generation_ = tables_.generation();
}

// The kernel has answered a request before it returns, and reads out a table in as many datagrams as it takes.
void KernelNeighbourhood::receive() {
  const Nanos now = clock_.now();
  const bool whole = netlink_->receive(
      kDatagramsPerStep, [&](std::span<const std::byte> datagram) { tables_.on_answers(datagram, now); },
      [&](std::span<const std::byte> datagram) { tables_.on_news(datagram, now); });
  if (!whole) tables_.on_overrun(now);
}

void KernelNeighbourhood::follow_interface() {
  const uint32_t returns = port_.interface_returns();
  if (returns == interface_returns_) return;
  const unsigned index = port_.interface_index();
  if (index == 0) return;
  interface_returns_ = returns;
  interface_.index = index;
  netlink_->move_to(index);
  tables_.move_to(index, clock_.now());
}

std::vector<Gid> KernelNeighbourhood::addresses() {
  const std::lock_guard lock(mutex_);
  return tables_.addresses();
}

void KernelNeighbourhood::step(bool /*announce*/) {
  std::optional<net::LinkNews> link;
  {
    const std::lock_guard lock(mutex_);
    follow_interface();
    receive();
    if (const Nanos now = clock_.now(); tables_.next_deadline() <= now) {
      tables_.poll(now);
      receive();
    }
    for (const auto& [dgid, mac] : tables_.take_changes()) moved_.insert_or_assign(dgid, mac);
    link = tables_.take_link();
  }
  if (link) tell_of_link(*link);
  redirect_moved();
  follow_groups();
  follow_addresses();
}

void KernelNeighbourhood::redirect_moved() {
  if (moved_.empty()) return;
  const auto next_hop = [moved = moved_](const Gid& dgid) -> std::optional<EthAddr> {
    const auto found = moved.find(dgid);
    return found != moved.end() ? std::optional(found->second) : std::nullopt;
  };
  if (redirect(next_hop)) moved_.clear();
}

// For a card that filters groups by itself, besides the kernel's list, and for a socket that joins them.
void KernelNeighbourhood::follow_groups() {
  std::vector<EthAddr> groups;
  std::vector<Gid> addresses;
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(received_generation_, groups_generation_) == groups_generation_) return;
    for (const auto& [group, users] : groups_) {
      groups.push_back(wire::multicast_mac(group));
      addresses.push_back(group);
    }
  }
  port_.receive_groups(groups);
  port_.receive_group_addresses(addresses);
}

void KernelNeighbourhood::follow_addresses() {
  std::vector<Gid> addresses;
  uint64_t generation = 0;
  addresses_due_ = kNever;
  {
    const std::lock_guard lock(mutex_);
    generation = tables_.generation();
    if (generation == told_generation_ || !tables_.complete()) return;
    addresses = tables_.addresses();
  }
  const bool changed = addresses != told_;
  if (changed && addresses_changed_ && !addresses_changed_(addresses)) {
    addresses_due_ = clock_.now() + kRetry;
    return;
  }
  told_generation_ = generation;
  if (!changed) return;
  told_ = std::move(addresses);
  note(fmt::format("port {}: {} now has {}", port_.name(), interface_.name,
                   told_.empty() ? "no address" : list_of(told_)),
       NoteLevel::info);
}

// The device was made for the interface as it was.
void KernelNeighbourhood::tell_of_link(const net::LinkNews& link) const {
  if (link.mac && *link.mac != port_.mac()) {
    note(fmt::format("port {}: {} has the new Ethernet address {}, and the device still {}; start the program again",
                     port_.name(), interface_.name, net::to_text(*link.mac), net::to_text(port_.mac())));
  }
  if (link.mtu && *link.mtu < port_.mtu()) {
    note(fmt::format(
        "port {}: the MTU of {} is now {}, so that longer packets of the device are lost, which has {}; raise "
        "it, or start the program again",
        port_.name(), interface_.name, *link.mtu, port_.mtu()));
  }
}

Nanos KernelNeighbourhood::next_deadline() {
  const std::lock_guard lock(mutex_);
  return std::min({redirect_due(), addresses_due_, tables_.next_deadline()});
}

std::optional<EthAddr> KernelNeighbourhood::next_hop(const Gid& dgid) {
  const std::lock_guard lock(mutex_);
  const auto hop = tables_.next_hop(dgid);
  return hop ? tables_.lookup(*hop) : std::nullopt;
}

Result<Neighbourhood::Hop> KernelNeighbourhood::begin_resolve(const Gid& dgid, uint32_t) {
  const auto hop = ask(dgid);
  if (!hop) return std::unexpected(hop.error());
  return Hop{*hop};
}

Result<Gid> KernelNeighbourhood::ask(const Gid& dgid) {
  const std::lock_guard lock(mutex_);
  receive();  // earlier news, so that later news is of this request
  tables_.request(dgid, clock_.now());
  receive();
  service_.wake_always();  // for the request's deadline, and for news that was received here
  auto hop = tables_.next_hop(dgid);
  if (!hop) return std::unexpected(at_port(hop.error()));
  return hop;
}

Result<Gid> KernelNeighbourhood::source_for(const Gid& dgid) {
  const auto hop = ask(dgid);
  if (!hop) return std::unexpected(hop.error());
  const std::lock_guard lock(mutex_);
  if (const auto source = tables_.source_for(dgid)) return *source;
  return fail(ENETUNREACH, fmt::format("port {}: {} has no address from which to reach {}; add one with ip addr add",
                                       port_.name(), interface_.name, net::to_text(dgid)));
}

std::optional<EthAddr> KernelNeighbourhood::look_up(const Gid& hop) {
  const std::lock_guard lock(mutex_);
  return tables_.lookup(hop);
}

bool KernelNeighbourhood::given_up(const Gid& hop) {
  const std::lock_guard lock(mutex_);
  return tables_.failed(hop);
}

void KernelNeighbourhood::join(const Gid& group) {
  Result<void> joined;
  {
    const std::lock_guard lock(mutex_);
    ++groups_generation_;
    if (++groups_[group] == 1) joined = netlink_->join(group);
  }
  service_.wake_always();
  if (joined) return;
  note(fmt::format("port {}: the kernel does not report the group {} on {}: {}; a switch may keep its packets back",
                   port_.name(), net::to_text(group), interface_.name, joined.error().text));
}

void KernelNeighbourhood::leave(const Gid& group) {
  const std::lock_guard lock(mutex_);
  const auto found = groups_.find(group);
  if (found == groups_.end() || --found->second != 0) return;
  ++groups_generation_;
  groups_.erase(found);
  netlink_->leave(group);
  service_.wake_always();
}

std::vector<std::pair<std::string, uint64_t>> KernelNeighbourhood::counters() const {
  const net::KernelTablesCounters& c = tables_.counters();
  return {{"neighbour_malformed", c.malformed.get()},   {"neighbour_learned", c.learned.get()},
          {"neighbour_requests", c.probes.get()},       {"neighbour_failed", c.failed.get()},
          {"neighbour_table_full", c.table_full.get()}, {"kernel_messages", c.messages.get()},
          {"kernel_overruns", c.overruns.get()}};
}

}  // namespace uroce::glue
