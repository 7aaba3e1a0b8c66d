// The goals of tests/sim/README.md in short runs, so that a change which loses one is seen at once.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/sim/simulation.h"

namespace uroce::sim {
namespace {

using std::chrono::milliseconds;

Json run(const Scenario& scenario) {
  Simulation simulation(scenario);
  simulation.run();
  return summarize(simulation);
}

Scenario one_flow(Nanos duration) {
  Scenario scenario;
  scenario.duration = duration;
  scenario.retransmission = Retransmission::selective;
  return scenario;
}

double goodput(const Scenario& scenario) {
  const Json summary = run(scenario);
  EXPECT_EQ(summary["goodput"]["failed_flows"], 0);
  return summary["goodput"]["total_gbps"];
}

TEST(Goals, GoodputUnderLoss) {
  Scenario scenario = one_flow(milliseconds(30));
  const double lossless = goodput(scenario);
  for (const auto& [loss, least] : {std::pair(1e-4, 0.95), {1e-3, 0.85}, {1e-2, 0.5}}) {
    scenario.impairments.loss = loss;
    EXPECT_GE(goodput(scenario), least * lossless) << "at loss " << loss;
  }
}

TEST(Goals, LatencyUnderLoss) {
  for (const uint32_t depth : {1u, 8u}) {
    Scenario scenario = one_flow(milliseconds(depth == 1 ? 300 : 100));
    scenario.message_bytes = 4096;
    scenario.depth = depth;
    const double lossless = run(scenario)["latency"]["p999_us"];
    scenario.impairments.loss = 1e-3;
    const double rtt = static_cast<double>(scenario.rtt.count()) / 1e3;
    EXPECT_LE(run(scenario)["latency"]["p999_us"], 3 * lossless + 2 * rtt) << "with " << depth << " posted";
  }
}

void expect_as_in_order(const Scenario& scenario, double in_order) {
  const Json summary = run(scenario);
  EXPECT_LE(summary["packets"]["spurious_share"], 0.001);
  EXPECT_GE(summary["goodput"]["total_gbps"], 0.95 * in_order);
}

TEST(Goals, ReorderingIsNotTakenForLoss) {
  // At first a packet that others overtake is taken for lost; how far they do is learnt in the first round trips.
  Scenario scenario = one_flow(milliseconds(100));
  const double in_order = goodput(scenario);
  scenario.impairments.reorder = 32;
  expect_as_in_order(scenario, in_order);
  scenario.impairments.reorder_chance = 0.01;
  expect_as_in_order(scenario, in_order);
}

TEST(Goals, SprayingOverUnequalPathsIsNotTakenForLoss) {
  Scenario scenario = one_flow(milliseconds(100));
  scenario.topology = Topology::paths;
  const double in_order = goodput(scenario);
  scenario.udp_source_ports = 16;
  expect_as_in_order(scenario, in_order);
}

/// 32 hosts that write to one; the windows of time after convergence, each a millisecond.
struct Incast {
  explicit Incast(CongestionAlgorithm congestion, const EcnMarking& ecn = {}) {
    Scenario scenario = one_flow(milliseconds(12));
    scenario.topology = Topology::incast;
    scenario.flows = 32;
    scenario.queue_bytes = 16 << 20;
    scenario.window_packets = 64;
    scenario.congestion.algorithm = congestion;
    scenario.ecn = ecn;
    summary = run(scenario);
    const Json& windows = summary["windows"]["list"];
    converged.assign(windows.begin() + 5, windows.end());
  }
  uint64_t most_queued() const {
    const Json& series = summary["queues"][0]["series"];
    const auto first = static_cast<std::size_t>(5000 / series["interval_us"].get<double>());
    const auto bytes = series["bytes"].get<std::vector<uint64_t>>();
    return *std::max_element(bytes.begin() + static_cast<std::ptrdiff_t>(first), bytes.end());
  }
  Json summary;
  std::vector<Json> converged;
};

TEST(Goals, DcqcnKeepsAnIncastFairAndItsQueueShort) {
  constexpr EcnMarking kEcn{.kmin = 200'000, .kmax = 800'000, .pmax = 0.2};
  const Incast incast(CongestionAlgorithm::dcqcn, kEcn);
  for (const Json& window : incast.converged) {
    EXPECT_GE(window["jain"], 0.95);
    EXPECT_EQ(window["overflows"], 0);
  }
  EXPECT_LE(incast.most_queued(), kEcn.kmax * 5 / 4);
}

TEST(Goals, SwiftKeepsAnIncastFairWithoutMarks) {
  const Incast incast(CongestionAlgorithm::swift);
  for (const Json& window : incast.converged) EXPECT_GE(window["jain"], 0.95);
  EXPECT_EQ(incast.summary["engines"]["timeouts"], 0);
}

}  // namespace
}  // namespace uroce::sim
