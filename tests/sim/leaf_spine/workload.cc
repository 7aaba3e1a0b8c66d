#include "tests/sim/leaf_spine/workload.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/sim/leaf_spine/flow_sizes.h"
#include "wire/packet.h"

namespace uroce::sim {
namespace {

// Ethernet, IPv4, UDP, BTH and ICRC; the first packet also has a RETH, and an ACK an AETH.
constexpr uint32_t kHeaders = 14 + 20 + 8 + 12 + 4, kReth = 16, kAeth = 4;

/// Each host has as many peers as any other, to send to and to receive from.
class Peers {
 public:
  Peers(const FabricPlan& plan, Random& random) : hosts_(plan.hosts), offsets_(plan.hosts - 1) {
    std::iota(offsets_.begin(), offsets_.end(), 1);
    const std::size_t wanted = std::min<std::size_t>(plan.peers, offsets_.size());
    for (std::size_t i = 0; i < wanted; ++i) std::swap(offsets_[i], offsets_[i + random.below(offsets_.size() - i)]);
    offsets_.resize(wanted);
  }
  uint32_t to(uint32_t from, Random& random) const { return (from + offsets_[random.below(offsets_.size())]) % hosts_; }
  /// `count` different hosts that send to `to`.
  std::vector<uint32_t> senders(uint32_t to, uint32_t count, Random& random) const {
    std::vector<uint32_t> some = offsets_;
    count = std::min(count, static_cast<uint32_t>(some.size()));
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(some[i], some[i + random.below(some.size() - i)]);
      some[i] = (to + hosts_ - some[i]) % hosts_;
    }
    some.resize(count);
    return some;
  }

 private:
  uint32_t hosts_;
  std::vector<uint32_t> offsets_;
};

/// Moments of a Poisson process with `per_second`, within the plan's duration.
template <class Take>
void poisson(const FabricPlan& plan, double per_second, Random& random, Take&& take) {
  double at = 0;
  const double end = static_cast<double>(plan.duration.count()) * 1e3;
  for (;;) {
    const double share = (static_cast<double>(random.next() >> 11) + 1) * 0x1p-53;
    at -= std::log(share) / per_second * 1e12;
    if (at >= end) return;
    take(std::chrono::duration_cast<Picos>(plan.start) + Picos(std::llround(at)));
  }
}

double bytes_per_second(const FabricPlan& plan) { return plan.load * plan.host_gbps * 1e9 / 8; }

void add_sizes(const FabricPlan& plan, std::span<const SizePoint> sizes, const Peers& peers, Random& random,
               std::vector<FabricFlow>& flows) {
  const double per_second = bytes_per_second(plan) / mean_size(sizes);
  for (uint32_t from = 0; from < plan.hosts; ++from) {
    poisson(plan, per_second, random, [&](Picos at) {
      flows.push_back({.from = from, .to = peers.to(from, random), .bytes = draw_size(sizes, random), .start = at});
    });
  }
}

void add_incasts(const FabricPlan& plan, const Peers& peers, Random& random, std::vector<FabricFlow>& flows) {
  const double bytes = static_cast<double>(plan.flow_bytes) * std::min({plan.degree, plan.peers, plan.hosts - 1});
  for (uint32_t to = 0; to < plan.hosts; ++to) {
    poisson(plan, bytes_per_second(plan) / bytes, random, [&](Picos at) {
      for (const uint32_t from : peers.senders(to, plan.degree, random)) {
        flows.push_back({.from = from, .to = to, .bytes = plan.flow_bytes, .start = at});
      }
    });
  }
}

// Groups take hosts of many leaves, as jobs do that come and go. A host begins with the one behind it.
void add_all_to_all(const FabricPlan& plan, Random& random, std::vector<FabricFlow>& flows) {
  std::vector<uint32_t> hosts(plan.hosts);
  std::iota(hosts.begin(), hosts.end(), 0);
  for (std::size_t i = 0; i < hosts.size(); ++i) std::swap(hosts[i], hosts[i + random.below(hosts.size() - i)]);
  for (std::size_t begin = 0; begin < hosts.size(); begin += plan.degree) {
    const std::size_t size = std::min<std::size_t>(plan.degree, hosts.size() - begin);
    for (std::size_t step = 1; step < size; ++step) {
      for (std::size_t i = 0; i < size; ++i) {
        flows.push_back({.from = hosts[begin + i],
                         .to = hosts[begin + (i + step) % size],
                         .bytes = plan.flow_bytes,
                         .start = plan.start});
      }
    }
  }
}

}  // namespace

std::vector<FabricFlow> make_flows(const FabricPlan& plan) {
  Random random(plan.seed ^ 0xf10);
  const Peers peers(plan, random);
  std::vector<FabricFlow> flows;
  switch (plan.traffic) {
    case TrafficMix::web_search: add_sizes(plan, kWebSearch, peers, random, flows); break;
    case TrafficMix::storage: add_sizes(plan, kStorage, peers, random, flows); break;
    case TrafficMix::incast: add_incasts(plan, peers, random, flows); break;
    case TrafficMix::all_to_all: add_all_to_all(plan, random, flows); break;
  }
  std::ranges::stable_sort(flows, {}, &FabricFlow::start);
  return flows;
}

Picos ideal_time(const FabricPlan& plan, const FabricFlow& flow) {
  const uint64_t mtu = mtu_bytes(plan.mtu);
  const uint64_t packets = (flow.bytes + mtu - 1) / mtu;
  const auto last = static_cast<uint32_t>(flow.bytes - (packets - 1) * mtu);
  const uint32_t last_frame = kHeaders + (packets == 1 ? kReth : 0) + (last + 3) / 4 * 4;
  Picos time{0};
  if (packets > 1) {
    time += Link::time_of(kHeaders + kReth + static_cast<uint32_t>(mtu), plan.host_gbps);
    time += (packets - 2) * Link::time_of(kHeaders + static_cast<uint32_t>(mtu), plan.host_gbps);
  }
  const bool far = plan.leaf_of(flow.from) != plan.leaf_of(flow.to);
  for (const uint32_t bytes : {last_frame, kHeaders + kAeth}) {
    time += 2 * Link::time_of(bytes, plan.host_gbps) + 2 * Picos(plan.link_delay);
    if (far) time += 2 * Link::time_of(bytes, plan.spine_gbps) + 2 * Picos(plan.link_delay);
  }
  return time;
}

}  // namespace uroce::sim
