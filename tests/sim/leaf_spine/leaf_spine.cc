#include "tests/sim/leaf_spine/leaf_spine.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "tests/sim/engine_config.h"
#include "tests/sim/host.h"

namespace uroce::sim {
namespace {

constexpr uint64_t kLeastPayload = 4096;
constexpr uint32_t kSendDepth = 8;

uint64_t most_bytes(const std::vector<FabricFlow>& flows) {
  uint64_t most = kLeastPayload;
  for (const FabricFlow& flow : flows) most = std::max(most, flow.bytes);
  return most;
}

transport::EngineConfig engine_of(const FabricPlan& plan, uint32_t qps, uint64_t seed) {
  const auto retransmission =
      plan.recovery == Recovery::go_back_n ? Retransmission::go_back_n : Retransmission::selective;
  return engine_config(plan, retransmission, plan.host_gbps, qps, seed);
}

}  // namespace

std::string fault_of(const FabricPlan& plan) {
  if (plan.hosts < 2) return "a fabric needs two hosts";
  if (plan.failures > plan.leaves() * plan.spines) {
    return fmt::format("{} links cannot fail: there are {} between leaves and spines", plan.failures,
                       plan.leaves() * plan.spines);
  }
  if (plan.slow_links > plan.leaves() * plan.spines) {
    return fmt::format("{} links cannot be slow: there are {} between leaves and spines", plan.slow_links,
                       plan.leaves() * plan.spines);
  }
  return {};
}

LeafSpine::LeafSpine(const FabricPlan& plan)
    : plan_(plan),
      random_(plan.seed),
      flows_(make_flows(plan)),
      payload_(most_bytes(flows_)),
      dead_(plan.leaves(), std::vector<bool>(plan.spines)) {
  add_switches();
  add_hosts();
  join_all();
  set_ways();
  connect();
}

void LeafSpine::add_switches() {
  const auto make = [this] {
    SwitchOptions options = plan_.switches;
    options.seed = random_.next();
    return std::make_unique<SharedSwitch>(events_, pool_, options);
  };
  for (uint32_t i = 0; i < plan_.leaves(); ++i) leaves_.push_back(make());
  for (uint32_t i = 0; i < plan_.spines; ++i) spines_.push_back(make());
}

void LeafSpine::add_hosts() {
  // Both ends of a pair need qps_per_peer queue pairs. Their numbers begin at 2.
  std::vector<uint32_t> qps(plan_.hosts, 2);
  std::unordered_map<uint64_t, bool> pairs;
  for (const FabricFlow& flow : flows_) {
    if (!pairs.emplace(pair_of(flow), true).second) continue;
    qps[flow.from] += plan_.qps_per_peer;
    qps[flow.to] += plan_.qps_per_peer;
  }
  for (uint32_t i = 0; i < plan_.hosts; ++i) {
    FabricHostOptions options;
    options.number = i;
    options.engine = engine_of(plan_, std::bit_ceil(qps[i] + 1), random_.next());
    options.whole_writes = plan_.recovery != Recovery::onlies;
    options.tx_slots = plan_.tx_slots;
    options.seed = random_.next();
    FabricHost& host = *hosts_.emplace_back(std::make_unique<FabricHost>(
        events_, pool_, options, payload_, [this](uint64_t tag, WcStatus status) { on_done(tag, status); }));
    const LinkOptions there{plan_.host_gbps, plan_.link_delay, plan_.loss, random_.next()};
    SharedSwitch& leaf = *leaves_[plan_.leaf_of(i)];
    const uint32_t port = leaf.ports();
    leaf.add_port({plan_.host_gbps, plan_.link_delay, plan_.loss, random_.next()}, {host, 0});
    leaf.set_ways(i, 1, {port});
    Link& link = *host_links_.emplace_back(std::make_unique<Link>(events_, pool_, there, LinkEnd<PacketSource>{host, 0},
                                                                  LinkEnd<PacketReceiver>{leaf, port}));
    leaf.set_upstream(port, link);
    host.set_link(link);
  }
}

// The slow links are drawn by the seed, and nothing else changes with their number.
void LeafSpine::join_all() {
  std::vector<double> gbps(std::size_t{plan_.leaves()} * plan_.spines, plan_.spine_gbps);
  std::fill_n(gbps.begin(), plan_.slow_links, plan_.slow_gbps);
  Random random(plan_.seed ^ 0x510);
  for (std::size_t i = 0; i < plan_.slow_links; ++i) std::swap(gbps[i], gbps[i + random.below(gbps.size() - i)]);
  for (uint32_t leaf = 0; leaf < plan_.leaves(); ++leaf) {
    for (uint32_t spine = 0; spine < plan_.spines; ++spine) join(leaf, spine, gbps[leaf * plan_.spines + spine]);
  }
}

void LeafSpine::join(uint32_t leaf, uint32_t spine, double gbps) {
  SharedSwitch &down = *leaves_[leaf], &up = *spines_[spine];
  const uint32_t at_leaf = down.ports(), at_spine = up.ports();
  Link& there = down.add_port({gbps, plan_.link_delay, plan_.loss, random_.next()}, {up, at_spine});
  Link& back = up.add_port({gbps, plan_.link_delay, plan_.loss, random_.next()}, {down, at_leaf});
  down.set_upstream(at_leaf, back);
  up.set_upstream(at_spine, there);
}

// A leaf sends to another by the spines to which both have a link that is not known to be dead.
void LeafSpine::set_ways() {
  const auto hosts_at = [this](uint32_t leaf) {
    return std::min(plan_.hosts_per_leaf, plan_.hosts - leaf * plan_.hosts_per_leaf);
  };
  for (uint32_t to = 0; to < plan_.leaves(); ++to) {
    const uint32_t first = to * plan_.hosts_per_leaf;
    for (uint32_t spine = 0; spine < plan_.spines; ++spine) {
      spines_[spine]->set_ways(first, hosts_at(to), {to});
    }
    for (uint32_t from = 0; from < plan_.leaves(); ++from) {
      if (from == to) continue;
      std::vector<uint32_t> ports;
      for (uint32_t spine = 0; spine < plan_.spines; ++spine) {
        if (!dead_[from][spine] && !dead_[to][spine]) ports.push_back(hosts_at(from) + spine);
      }
      leaves_[from]->set_ways(first, hosts_at(to), std::move(ports));
    }
  }
}

void LeafSpine::connect() {
  for (const FabricFlow& flow : flows_) {
    const auto [at, is_new] = first_connection_.emplace(pair_of(flow), static_cast<uint32_t>(connections_.size()));
    if (!is_new) continue;
    for (uint32_t i = 0; i < plan_.qps_per_peer; ++i) {
      connect(connections_.emplace_back(), *hosts_[flow.from], *hosts_[flow.to]);
    }
  }
  connection_of_.resize(flows_.size());
}

void LeafSpine::connect(Connection& connection, FabricHost& from, FabricHost& to) {
  connection.near = from.make_qp();
  connection.far = to.make_qp();
  qps_ += 2;
  test::ConnectOptions there;
  there.dest_qpn = connection.far->qpn();
  there.sq_psn = static_cast<uint32_t>(random_.below(1 << 24));
  there.rq_psn = static_cast<uint32_t>(random_.below(1 << 24));
  there.mtu = plan_.mtu;
  there.timeout = static_cast<uint8_t>(plan_.timeout);
  test::ConnectOptions back = there;
  back.dest_qpn = connection.near->qpn();
  std::swap(back.sq_psn, back.rq_psn);
  connection.near->connect(there, from.endpoint().route_to(to.endpoint()));
  connection.far->connect(back, to.endpoint().route_to(from.endpoint()));
}

void LeafSpine::run(const std::function<void(Nanos)>& progress) {
  const Nanos end = plan_.start + plan_.duration;
  if (!flows_.empty()) events_.schedule(flows_.front().start, *this, flow_starts);
  events_.schedule(plan_.start, *this, sample);
  if (plan_.failures != 0) {
    events_.schedule(plan_.start + plan_.fail_at, *this, fail);
    events_.schedule(plan_.start + plan_.fail_at + plan_.reroute, *this, reroute);
  }
  for (const auto& host : hosts_) host->run();
  for (Nanos now{0}; now < end + plan_.drain && (now < end || ended_ < flows_.size());) {
    now += kSample / 2;
    events_.run_until(now);
    if (progress) progress(now);
  }
}

void LeafSpine::on_event(uint64_t what) {
  switch (what) {
    case flow_starts: return begin_flows();
    case sample:
      samples_.push_back(totals());
      events_.schedule(events_.now() + kSample, *this, sample);
      return;
    case fail:
      // The links that fail are drawn by the seed; both directions of one go down together.
      for (uint32_t left = plan_.failures; left != 0;) {
        const auto leaf = static_cast<uint32_t>(random_.below(plan_.leaves()));
        const auto spine = static_cast<uint32_t>(random_.below(plan_.spines));
        if (dead_[leaf][spine]) continue;
        dead_[leaf][spine] = true;
        leaves_[leaf]->link(leaves_[leaf]->ports() - plan_.spines + spine).set_up(false);
        spines_[spine]->link(leaf).set_up(false);
        --left;
      }
      return;
    default: set_ways();
  }
}

// A flow takes the connection of its pair that has least to do.
void LeafSpine::begin_flows() {
  while (next_flow_ < flows_.size() && flows_[next_flow_].start <= events_.now()) {
    const auto flow = static_cast<uint32_t>(next_flow_++);
    const uint32_t first = first_connection_.at(pair_of(flows_[flow]));
    uint32_t best = first;
    const auto busy = [this](uint32_t i) { return connections_[i].posted + connections_[i].waiting.size(); };
    for (uint32_t i = first + 1; i < first + plan_.qps_per_peer; ++i) {
      if (busy(i) < busy(best)) best = i;
    }
    connection_of_[flow] = best;
    Connection& connection = connections_[best];
    if (connection.posted == kSendDepth) {
      connection.waiting.push_back(flow);
      continue;
    }
    post(flow, connection);
    hosts_[flows_[flow].from]->run();
  }
  if (next_flow_ < flows_.size()) events_.schedule(flows_[next_flow_].start, *this, flow_starts);
}

void LeafSpine::post(uint32_t flow, Connection& connection) {
  const FabricFlow& f = flows_[flow];
  const Sge sge{SharedPayload::kAddress, static_cast<uint32_t>(f.bytes), hosts_[f.from]->key()};
  SendRequest request;
  request.wr_id = flow;
  request.opcode = WrOpcode::rdma_write;
  request.flags = SendFlag::signaled;
  request.sges = {&sge, 1};
  request.remote_addr = SharedPayload::kAddress;
  request.rkey = hosts_[f.to]->key();
  test::require(connection.near->post_send(request), "a send queue is full though less than its depth is outstanding");
  ++connection.posted;
}

void LeafSpine::on_done(uint64_t tag, WcStatus status) {
  FabricFlow& flow = flows_[tag];
  flow.end = events_.now();
  flow.status = status;
  ++ended_;
  Connection& connection = connections_[connection_of_[tag]];
  --connection.posted;
  if (connection.waiting.empty()) return;
  const uint32_t next = connection.waiting.front();
  connection.waiting.pop_front();
  post(next, connection);
}

FabricTotals LeafSpine::totals() const {
  FabricTotals sum;
  const auto add_link = [&sum](const Link& link) {
    sum.lost += link.counters().lost;
    sum.cut += link.counters().cut;
    sum.pauses += link.counters().pauses;
    sum.paused += link.counters().paused;
  };
  for (const auto* switches : {&leaves_, &spines_}) {
    for (const auto& one : *switches) {
      sum.dropped += one->counters().dropped;
      sum.cut += one->counters().no_way;
      sum.marked += one->counters().marked;
      sum.most_buffered = std::max(sum.most_buffered, one->buffer().most());
      sum.buffered = std::max(sum.buffered, one->buffer().used());
      for (uint32_t port = 0; port < one->ports(); ++port) add_link(one->link(port));
    }
  }
  for (const auto& link : host_links_) add_link(*link);
  for (const auto& host : hosts_) {
    sum.sent += host->sent();
    sum.received += host->received();
    sum.received_bytes += host->received_bytes();
    sum.received_marked += host->received_marked();
    const transport::EngineCounters& counters = host->endpoint().engine().counters();
    sum.timeouts += counters.timeouts.get();
    sum.retransmitted += counters.retransmitted_packets.get();
    sum.path_changes += counters.path_changes.get();
  }
  return sum;
}

uint64_t LeafSpine::digest() const {
  uint64_t hash = 0xcbf29ce484222325;
  const auto mix = [&hash](uint64_t value) { hash = Random(hash ^ value).next(); };
  for (const FabricFlow& flow : flows_) mix(static_cast<uint64_t>(flow.end.count()));
  const FabricTotals sum = totals();
  for (const uint64_t value : {sum.sent, sum.received, sum.dropped, sum.lost, sum.marked, events_.happened()})
    mix(value);
  return hash;
}

}  // namespace uroce::sim
