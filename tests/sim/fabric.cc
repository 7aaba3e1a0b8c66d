#include "tests/sim/fabric.h"

#include <fmt/format.h>

#include <bit>

#include "tests/sim/engine_config.h"

namespace uroce::sim {
namespace {

transport::EngineConfig engine_of(const Scenario& scenario, uint64_t seed) {
  auto config =
      engine_config(scenario, scenario.retransmission, scenario.gbps, std::bit_ceil(2 * scenario.flows + 4), seed);
  config.read_window_packets = scenario.read_window_packets;
  return config;
}

}  // namespace

Fabric::Fabric(const Scenario& scenario) : scenario_(scenario), random_(scenario.seed) {
  const bool two_switches = scenario.topology == Topology::paths;
  for (int i = 0; i < (two_switches ? 2 : 1); ++i) switches_.push_back(std::make_unique<Switch>(random_.next()));
  const uint32_t senders = scenario.topology == Topology::incast ? scenario.flows : 1;
  // A way there crosses two links, or three, of which the middle one takes half of the time.
  const Nanos delay = scenario.rtt / (two_switches ? 8 : 4);
  for (uint32_t i = 0; i < senders; ++i) add_host(*switches_.front(), delay);
  add_host(*switches_.back(), delay);
  if (two_switches) add_paths(*switches_.front(), *switches_.back());
  if (scenario.read) {
    for (uint32_t i = 0; i < senders; ++i) watched_.push_back(ports_[i].get());
  } else {
    watched_.push_back(ports_[senders].get());
  }
}

Port& Fabric::add_port(const std::string& name, Nanos delay, Receiver& far_end, bool impaired) {
  PortOptions options;
  options.name = name;
  options.gbps = scenario_.gbps;
  options.delay = delay;
  options.queue_bytes = scenario_.queue_bytes;
  options.ecn = scenario_.ecn;
  if (impaired) options.impairments = scenario_.impairments;
  options.seed = random_.next();
  return *ports_.emplace_back(std::make_unique<Port>(events_, options, far_end));
}

Host& Fabric::add_host(Switch& uplink, Nanos delay) {
  HostOptions options;
  options.number = static_cast<uint32_t>(hosts_.size());
  options.engine = engine_of(scenario_, random_.next());
  options.regions = std::bit_ceil(2 * scenario_.flows + 4);
  options.tx_slots = scenario_.tx_slots;
  options.port.gbps = scenario_.gbps;
  options.faults = scenario_.faults;
  options.port.delay = delay;
  options.seed = random_.next();
  Host& host = *hosts_.emplace_back(std::make_unique<Host>(events_, pool_, options, uplink, meters_));
  uplink.add_way(options.number, add_port(fmt::format("switch>host{}", options.number), delay, host, true));
  return host;
}

void Fabric::add_paths(Switch& left, Switch& right) {
  for (uint32_t i = 0; i < scenario_.paths; ++i) {
    const Nanos delay = scenario_.rtt / 4 + i * scenario_.path_skew;
    Port& there = add_port(fmt::format("path{}", i), delay, right, false);
    Port& back = add_port(fmt::format("path{}back", i), delay, left, false);
    left.add_way(1, there);
    right.add_way(0, back);
    watched_.push_back(scenario_.read ? &back : &there);
  }
}

void Fabric::set_meter(uint32_t qpn, FlowMeter& meter) {
  if (qpn >= meters_.size()) meters_.resize(qpn + 1);
  meters_[qpn] = &meter;
}

void Fabric::set_trace(const Trace* trace) {
  for (auto& host : hosts_) host->set_trace(trace);
  for (auto& port : ports_) port->set_trace(trace);
}

}  // namespace uroce::sim
