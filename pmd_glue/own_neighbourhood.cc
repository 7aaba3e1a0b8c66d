#include "pmd_glue/own_neighbourhood.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "pmd_glue/notes.h"
#include "transport/engine/owners.h"

namespace uroce::glue {

namespace {
constexpr uint32_t kSlots = 64;
/// Most frames of one port in one step, so that a flood on one port does not starve the others.
constexpr uint32_t kFramesPerStep = 64;
static_assert(net::Neighbours::kNobody == transport::Owner::kNobody);
}  // namespace

OwnNeighbourhood::OwnNeighbourhood(Port& port, uint16_t vlan, net::AddressTable table, uint32_t engines, Waker& service,
                                   const TscClock& clock, uint64_t seed)
    : Neighbourhood(port, service, clock),
      vlan_(vlan),
      outgoing_(kSlots, port.max_frame()),
      neighbours_(port.mac(), vlan, std::move(table), [this](std::span<const std::byte> frame) { send(frame); }),
      memberships_(port.mac(), vlan, port.mtu(), seed, [this](std::span<const std::byte> frame) { send(frame); }) {
  memberships_.set_addresses(neighbours_.table().gids(), clock_.now());
  for (uint32_t i = 0; i < engines; ++i) incoming_.push_back(std::make_unique<FrameRing>(kSlots, port.max_frame()));
}

bool OwnNeighbourhood::deliver(uint32_t engine, std::span<const std::byte> frame) {
  if (!incoming_[engine]->push(frame)) return false;
  service_.wake();
  return true;
}

void OwnNeighbourhood::send(std::span<const std::byte> frame) {
  if (!outgoing_.push(frame)) return send_lost_.add();
  if (sender_ != nullptr) sender_->wake();
}

void OwnNeighbourhood::step(bool announce) {
  std::vector<net::NeighbourAddress> conflicts;
  {
    const std::lock_guard lock(mutex_);
    run(announce);
    for (const auto& [gid, mac] : neighbours_.take_changes()) moved_.insert_or_assign(gid, mac);
    conflicts = neighbours_.take_conflicts();
  }
  tell_of_changes();
  tell_of_conflicts(conflicts);
}

void OwnNeighbourhood::set_table(net::AddressTable table) {
  {
    const std::lock_guard lock(mutex_);
    if (table == neighbours_.table()) return;
    memberships_.set_addresses(table.gids(), clock_.now());
    neighbours_.set_table(std::move(table), clock_.now());
    announce_ = true;
  }
  service_.wake_always();
}

void OwnNeighbourhood::run(bool announce) {
  // A link that is down gets all announcements when it comes up.
  if (announce || (std::exchange(announce_, false) && port_.link_up())) {
    neighbours_.announce(clock_.now());
    memberships_.announce(clock_.now());
  }
  if (heard_generation_ != memberships_.generation()) {
    heard_generation_ = memberships_.generation();
    port_.receive_groups(memberships_.ethernet_addresses());
  }
  for (const auto& ring : incoming_) {
    for (uint32_t i = 0; i < kFramesPerStep; ++i) {
      const auto frame = ring->front();
      if (frame.empty()) break;
      receive(frame, clock_.now());
      ring->pop();
    }
    if (!ring->empty()) service_.wake_always();
  }
  neighbours_.poll(clock_.now());
  memberships_.poll(clock_.now());
}

// Routes may lead through a gateway, so each looks up its next hop again.
void OwnNeighbourhood::tell_of_changes() {
  if (moved_.empty()) return;
  const auto next_hop = [table = table_of_now(), moved = moved_](const Gid& dgid) -> std::optional<EthAddr> {
    const auto hop = table.next_hop(dgid);
    const auto found = hop ? moved.find(*hop) : moved.end();
    return found != moved.end() ? std::optional(found->second) : std::nullopt;
  };
  if (redirect(next_hop)) moved_.clear();
}

net::AddressTable OwnNeighbourhood::table_of_now() {
  const std::lock_guard lock(mutex_);
  return neighbours_.table();
}

void OwnNeighbourhood::tell_of_conflicts(std::span<const net::NeighbourAddress> conflicts) const {
  for (const auto& [gid, mac] : conflicts) {
    note(fmt::format("port {}: {} also has the address {}; give one of the two another address (device.addresses)",
                     port_.name(), net::to_text(mac), net::to_text(gid)));
  }
}

std::optional<EthAddr> OwnNeighbourhood::next_hop(const Gid& dgid) {
  const std::lock_guard lock(mutex_);
  const auto hop = neighbours_.table().next_hop(dgid);
  return hop ? neighbours_.lookup(*hop) : std::nullopt;
}

void OwnNeighbourhood::receive(std::span<const std::byte> frame, Nanos now) {
  const auto ether = net::parse_ether(frame);
  const bool heard = ether && ether->source != port_.mac() && ether->vlan.value_or(0) == vlan_;
  if (heard && memberships_.on_frame(*ether, now)) return;
  neighbours_.on_frame(frame, now);
}

void OwnNeighbourhood::join(const Gid& group) {
  {
    const std::lock_guard lock(mutex_);
    memberships_.join(group, clock_.now());
  }
  service_.wake_always();
}

void OwnNeighbourhood::leave(const Gid& group) {
  {
    const std::lock_guard lock(mutex_);
    memberships_.leave(group, clock_.now());
  }
  service_.wake_always();
}

Nanos OwnNeighbourhood::next_deadline() {
  for (const auto& ring : incoming_) {
    if (!ring->empty()) return Nanos(0);
  }
  const std::lock_guard lock(mutex_);
  return std::min({redirect_due(), neighbours_.next_deadline(), memberships_.next_deadline()});
}

Result<Neighbourhood::Hop> OwnNeighbourhood::begin_resolve(const Gid& dgid, uint32_t user) {
  const std::lock_guard lock(mutex_);
  auto hop = neighbours_.table().next_hop(dgid);
  if (!hop) return std::unexpected(at_port(hop.error()));
  const bool asked = neighbours_.request(*hop, clock_.now(), user);
  if (asked) service_.wake_always();  // the request made a new deadline
  return Hop{*hop, asked};
}

Result<Gid> OwnNeighbourhood::source_for(const Gid& dgid) {
  const std::lock_guard lock(mutex_);
  const net::AddressTable& table = neighbours_.table();
  if (table.ours(dgid)) return dgid;
  auto hop = table.next_hop(dgid);
  if (!hop) return std::unexpected(at_port(hop.error()));
  if (const auto source = table.source_for(*hop)) return *source;
  return no_source(dgid);
}

std::optional<EthAddr> OwnNeighbourhood::look_up(const Gid& hop) {
  const std::lock_guard lock(mutex_);
  return neighbours_.lookup(hop);
}

bool OwnNeighbourhood::given_up(const Gid& hop) {
  const std::lock_guard lock(mutex_);
  return neighbours_.state(hop) == net::NeighbourState::failed;
}

std::vector<std::pair<std::string, uint64_t>> OwnNeighbourhood::counters() const {
  const net::NeighbourCounters& c = neighbours_.counters();
  const net::MembershipCounters& m = memberships_.counters();
  return {{"neighbour_malformed", c.malformed.get()},  {"neighbour_not_ours", c.not_for_us.get()},
          {"neighbour_answered", c.answered.get()},    {"echo_answered", c.echo_answered.get()},
          {"neighbour_learned", c.learned.get()},      {"neighbour_requests", c.requests_sent.get()},
          {"neighbour_failed", c.failed.get()},        {"neighbour_table_full", c.table_full.get()},
          {"neighbour_deferred", c.deferred.get()},    {"neighbour_send_lost", send_lost_.get()},
          {"address_conflicts", c.conflicts.get()},    {"membership_queries", m.queries.get()},
          {"membership_malformed", m.malformed.get()}, {"membership_ignored", m.ignored.get()},
          {"membership_reports", m.reports.get()},     {"membership_full", m.full.get()},
          {"neighbour_claims", c.claims.get()}};
}

}  // namespace uroce::glue
