// Whole scenarios: that they are what they say, and the same each time.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/sim/simulation.h"

namespace uroce::sim {
namespace {

Json run(const Scenario& scenario) {
  Simulation simulation(scenario);
  simulation.run();
  return summarize(simulation);
}

Scenario short_run() {
  Scenario scenario;
  scenario.duration = std::chrono::milliseconds(2);
  scenario.warm_up = std::chrono::microseconds(200);
  return scenario;
}

double total(const Json& summary) { return summary["goodput"]["total_gbps"]; }

TEST(Simulation, SameSeedSameSummary) {
  Scenario scenario = short_run();
  scenario.impairments = {.loss = 1e-3, .burst_loss = 1e-3, .reorder = 4, .reorder_chance = 0.01};
  scenario.ecn = {20'000, 200'000, 0.1};
  scenario.topology = Topology::incast;
  scenario.flows = 8;
  const Json once = run(scenario);
  EXPECT_EQ(once.dump(), run(scenario).dump());
  scenario.seed = 2;
  EXPECT_NE(once.dump(), run(scenario).dump());
}

TEST(Simulation, AMessageTakesWhatTheLinksTake) {
  Scenario scenario = short_run();
  scenario.message_bytes = 4096;
  scenario.depth = 1;
  const Json summary = run(scenario);
  // Two links each way, 4178 and 24 bytes there, 62 and 24 back, at 80 ps a byte.
  const double expected = 12 + 2 * (4170 + 24 + 62 + 24) * 80e-6;
  EXPECT_NEAR(summary["latency"]["p50_us"], expected, 0.01);
  EXPECT_NEAR(summary["latency"]["max_us"], expected, 0.01);
}

TEST(Simulation, OneFlowFillsTheLink) {
  const Json summary = run(short_run());
  // 4096 of 4178 bytes, and 16 more in the first of 16 packets.
  EXPECT_NEAR(total(summary), 98.0, 0.2);
  EXPECT_EQ(summary["packets"]["retransmitted"], 0);
  EXPECT_EQ(summary["network"]["overflows"], 0);
}

TEST(Simulation, AShortTransmitRingHoldsTheEngineBackWithoutLoss) {
  Scenario scenario = short_run();
  scenario.tx_slots = 4;
  const Json summary = run(scenario);
  EXPECT_NEAR(total(summary), 98.0, 0.2);
  EXPECT_EQ(summary["packets"]["retransmitted"], 0);
  // A ring of 4 takes no part of the latency; 16 messages of 64 KiB wait in the window.
  EXPECT_GT(summary["latency"]["p50_us"], 80);
}

TEST(Simulation, ReadsCarryAsMuchAsWrites) {
  Scenario scenario = short_run();
  scenario.read = true;
  EXPECT_NEAR(total(run(scenario)), 98.0, 0.3);
}

TEST(Simulation, ASmallReceiveBufferHasOneReadOutstanding) {
  Scenario scenario = short_run();
  scenario.read = true;
  scenario.read_window_packets = 16;  // those of a READ of 64 KiB
  // Two links each way; the switch passes each packet on as soon as it is whole.
  const double round_trip_us = 12 + (17 * 4194 + 2 * 98) * 80e-6;
  EXPECT_NEAR(total(run(scenario)), 65536 * 8 / round_trip_us / 1e3, 0.5);
  scenario.read_window_packets = 32;
  EXPECT_GT(total(run(scenario)), 1.9 * 65536 * 8 / round_trip_us / 1e3);
  scenario.read_window_packets = 1;  // one always may go
  EXPECT_NEAR(total(run(scenario)), 65536 * 8 / round_trip_us / 1e3, 0.5);
}

TEST(Simulation, HundredsOfFlowsShareALink) {
  Scenario scenario = short_run();
  scenario.topology = Topology::incast;
  scenario.flows = 200;
  scenario.window_packets = 4;
  scenario.depth = 1;
  scenario.queue_bytes = 64 << 20;
  const Json summary = run(scenario);
  EXPECT_GT(summary["windows"]["list"][1]["goodput_gbps"], 95);
  EXPECT_EQ(summary["network"]["overflows"], 0);
  EXPECT_EQ(summary["goodput"]["per_flow_gbps"].size(), 200u);
}

TEST(Simulation, ALossIsCountedAndRepaired) {
  Scenario scenario = short_run();
  scenario.impairments.loss = 1e-3;
  const Json summary = run(scenario);
  EXPECT_GT(summary["network"]["lost"], 0);
  EXPECT_GT(summary["packets"]["retransmitted"], 0);
  EXPECT_EQ(summary["goodput"]["failed_flows"], 0);
  EXPECT_GT(total(summary), 50);
}

TEST(Simulation, FaultRulesActAtAHost) {
  faults::RuleSet rules(1);
  const auto added =
      rules.add("drop rx device=host1 opcode=write* nth=50\ndelay 3us tx device=host0 every=100", "", Nanos(0));
  ASSERT_TRUE(added) << added.error().text;
  Scenario scenario = short_run();
  scenario.faults = *added;
  const Json summary = run(scenario);
  EXPECT_EQ((*added)[0]->hits, 1);
  EXPECT_GT((*added)[1]->hits, 10);
  EXPECT_GE(summary["packets"]["retransmitted"], 1);
  EXPECT_EQ(summary["network"]["lost"], 0) << "the network is as it was";
}

TEST(Simulation, AFullQueueOverflowsIntoTheCounters) {
  Scenario scenario = short_run();
  scenario.topology = Topology::incast;
  scenario.flows = 8;
  scenario.queue_bytes = 100'000;
  const Json summary = run(scenario);
  EXPECT_GT(summary["network"]["overflows"], 0);
  EXPECT_LE(summary["queues"][0]["max_bytes"], 100'000);
  EXPECT_GT(summary["queues"][0]["p99_bytes"], 90'000);
}

}  // namespace
}  // namespace uroce::sim
