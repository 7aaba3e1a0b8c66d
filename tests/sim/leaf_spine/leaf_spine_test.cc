// The leaf-spine fabric: that it is what its plan says, loses nothing unseen, and is the same each time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/sim/leaf_spine/flow_sizes.h"
#include "tests/sim/leaf_spine/leaf_spine.h"

namespace uroce::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

FabricPlan small_plan() {
  FabricPlan plan;
  plan.hosts = 16;
  plan.hosts_per_leaf = 4;
  plan.spines = 2;
  plan.peers = 8;
  plan.degree = 8;
  plan.duration = microseconds(300);
  plan.drain = milliseconds(100);
  return plan;
}

void expect_all_done(const LeafSpine& fabric) {
  for (const FabricFlow& flow : fabric.flows()) {
    ASSERT_TRUE(flow.done()) << flow.bytes << " bytes from host " << flow.from << " to host " << flow.to;
    ASSERT_GE(flow.end - flow.start, ideal_time(fabric.plan(), flow)) << flow.bytes;
  }
}

/// Each packet that a host sent has arrived, is counted as gone, or is still there.
void expect_conserved(const LeafSpine& fabric) {
  const FabricTotals sum = fabric.totals();
  EXPECT_EQ(sum.sent, sum.received + sum.dropped + sum.lost + sum.cut + fabric.packets_out());
}

void expect_buffers_hold(LeafSpine& fabric) {
  for (uint32_t i = 0; i < fabric.plan().leaves(); ++i) {
    EXPECT_LE(fabric.leaf(i).buffer().most(), fabric.leaf(i).buffer().capacity());
  }
  for (uint32_t i = 0; i < fabric.plan().spines; ++i) {
    EXPECT_LE(fabric.spine(i).buffer().most(), fabric.spine(i).buffer().capacity());
  }
}

void expect_sound(LeafSpine& fabric) {
  expect_all_done(fabric);
  expect_conserved(fabric);
  expect_buffers_hold(fabric);
}

TEST(LeafSpine, AFlowAloneTakesTheIdealTime) {
  FabricPlan plan = small_plan();
  plan.hosts = 2;
  plan.hosts_per_leaf = 1;
  plan.traffic = TrafficMix::all_to_all;
  plan.degree = 2;
  plan.recovery = Recovery::selective;
  // Each host also receives: an ACK waits for a frame at each link.
  constexpr Picos kFrames{1'500'000};
  for (const uint64_t bytes : {1u, 4096u, 5000u, 1u << 20}) {
    plan.flow_bytes = bytes;
    LeafSpine fabric(plan);
    fabric.run();
    expect_sound(fabric);
    for (const FabricFlow& flow : fabric.flows()) {
      EXPECT_LE(flow.end - flow.start, ideal_time(plan, flow) * 51 / 50 + kFrames) << bytes << " bytes";
    }
  }
}

TEST(LeafSpine, SameSeedSameRun) {
  FabricPlan plan = small_plan();
  plan.loss = 1e-3;
  plan.congestion.algorithm = CongestionAlgorithm::dcqcn;
  LeafSpine first(plan), again(plan);
  plan.seed = 2;
  LeafSpine other(plan);
  first.run();
  again.run();
  other.run();
  EXPECT_EQ(first.digest(), again.digest());
  EXPECT_NE(first.digest(), other.digest());
}

TEST(LeafSpine, EveryMixControlAndRecoveryEnds) {
  for (const auto traffic : {TrafficMix::web_search, TrafficMix::storage, TrafficMix::incast, TrafficMix::all_to_all}) {
    for (const auto control : {CongestionAlgorithm::none, CongestionAlgorithm::dcqcn, CongestionAlgorithm::swift}) {
      for (const auto recovery : {Recovery::go_back_n, Recovery::selective, Recovery::onlies}) {
        FabricPlan plan = small_plan();
        plan.duration = microseconds(100);
        plan.traffic = traffic;
        plan.congestion.algorithm = control;
        plan.recovery = recovery;
        plan.loss = 1e-4;
        LeafSpine fabric(plan);
        fabric.run();
        expect_sound(fabric);
      }
    }
  }
}

FabricPlan crowded_plan() {
  FabricPlan plan = small_plan();
  plan.traffic = TrafficMix::incast;
  plan.load = 0.8;
  plan.flow_bytes = 256 << 10;
  plan.switches.buffer.bytes = 400'000;
  return plan;
}

TEST(LeafSpine, AFullBufferDropsAndCounts) {
  LeafSpine fabric(crowded_plan());
  fabric.run();
  expect_sound(fabric);
  EXPECT_GT(fabric.totals().dropped, 0u);
}

TEST(LeafSpine, PfcLosesNothingAndNeverLocks) {
  FabricPlan plan = crowded_plan();
  plan.switches.buffer.pfc = true;
  for (const auto recovery : {Recovery::go_back_n, Recovery::onlies}) {
    plan.recovery = recovery;
    LeafSpine fabric(plan);
    fabric.run();
    expect_sound(fabric);
    EXPECT_EQ(fabric.totals().dropped, 0u);
    EXPECT_GT(fabric.totals().pauses, 0u);
    // Packets that were sent again without need may be under way still.
    fabric.events().run_until(fabric.events().now() + milliseconds(20));
    EXPECT_EQ(fabric.packets_out(), 0u);
  }
}

TEST(LeafSpine, EcnMarksWhereQueuesGrow) {
  FabricPlan plan = crowded_plan();
  plan.switches.buffer.bytes = 32 << 20;
  plan.congestion.algorithm = CongestionAlgorithm::dcqcn;
  LeafSpine marking(plan);
  marking.run();
  expect_sound(marking);
  EXPECT_GT(marking.totals().received_marked, 0u);
  plan.switches.ecn.kmax = 0;
  LeafSpine silent(plan);
  silent.run();
  EXPECT_EQ(silent.totals().marked, 0u);
}

TEST(LeafSpine, PathsShareTheFlows) {
  FabricPlan plan = small_plan();
  plan.traffic = TrafficMix::all_to_all;
  plan.degree = 16;
  plan.flow_bytes = 4096;
  plan.spines = 4;
  LeafSpine fabric(plan);
  fabric.run();
  expect_sound(fabric);
  for (uint32_t leaf = 0; leaf < plan.leaves(); ++leaf) {
    uint64_t all = 0;
    for (uint32_t spine = 0; spine < 4; ++spine) all += fabric.leaf(leaf).link(4 + spine).counters().packets;
    EXPECT_GT(all, 48u);
    for (uint32_t spine = 0; spine < 4; ++spine) {
      const uint64_t packets = fabric.leaf(leaf).link(4 + spine).counters().packets;
      EXPECT_GT(packets, all / 20) << "leaf " << leaf << ", spine " << spine;
      EXPECT_LT(packets, all / 2) << "leaf " << leaf << ", spine " << spine;
    }
  }
}

TEST(LeafSpine, ASprayedFlowTakesAllPaths) {
  FabricPlan plan = small_plan();
  plan.hosts = 8;
  plan.traffic = TrafficMix::all_to_all;
  plan.degree = 2;
  plan.flow_bytes = 4 << 20;
  plan.udp_source_ports = 16;
  plan.hosts_per_leaf = 1;
  LeafSpine fabric(plan);
  fabric.run();
  expect_sound(fabric);
  const uint64_t first = fabric.leaf(0).link(1).counters().bytes, second = fabric.leaf(0).link(2).counters().bytes;
  EXPECT_GT(std::min(first, second), (first + second) / 8);
}

TEST(LeafSpine, FlowsSurviveDeadLinks) {
  FabricPlan plan = small_plan();
  plan.spines = 4;
  plan.failures = 2;
  plan.fail_at = microseconds(100);
  plan.reroute = microseconds(200);
  LeafSpine fabric(plan);
  fabric.run();
  expect_sound(fabric);
  EXPECT_GT(fabric.totals().cut, 0u);
}

TEST(LeafSpine, QueuePairsLeaveSlowPaths) {
  FabricPlan plan = small_plan();
  plan.hosts = plan.degree = 8;
  plan.spines = 4;
  plan.traffic = TrafficMix::all_to_all;
  plan.flow_bytes = 4 << 20;
  plan.slow_links = 2;
  plan.slow_gbps = 10;
  for (const auto control : {CongestionAlgorithm::dcqcn, CongestionAlgorithm::swift}) {
    plan.congestion.algorithm = control;
    const auto sum_of_times = [&](uint32_t rounds) {
      plan.congestion.plb_rounds = rounds;
      LeafSpine fabric(plan);
      fabric.run();
      expect_sound(fabric);
      EXPECT_EQ(fabric.totals().path_changes != 0, rounds != 0);
      Picos sum{0};
      for (const FabricFlow& flow : fabric.flows()) sum += flow.end - flow.start;
      return sum;
    };
    EXPECT_LT(sum_of_times(3), sum_of_times(0) * 9 / 10);
  }
}

TEST(SharedBuffer, AQueueGetsAShareOfWhatIsFree) {
  SharedBuffer buffer({.bytes = 1000, .alpha = 1});
  for (int i = 0; i < 4; ++i) buffer.add_port(0);
  // With alpha 1 one queue gets half, and a second one a third of what it would have alone.
  while (buffer.admit(0, 1, 10)) {
  }
  EXPECT_NEAR(static_cast<double>(buffer.queued(1)), 500, 20);
  while (buffer.admit(0, 2, 10)) {
  }
  EXPECT_NEAR(static_cast<double>(buffer.queued(2)), 250, 20);
  while (buffer.queued(1) > 0) buffer.release(0, 1, 10);
  while (buffer.admit(0, 2, 10)) {
  }
  EXPECT_NEAR(static_cast<double>(buffer.queued(2)), 500, 20);
}

TEST(SharedBuffer, AnInputThatHoldsNothingGoesOn) {
  SharedBuffer buffer({.bytes = 1000, .pfc = true, .pfc_alpha = 0.1});
  for (int i = 0; i < 3; ++i) buffer.add_port(500);
  ASSERT_TRUE(buffer.admit(0, 2, 200));
  EXPECT_TRUE(buffer.pauses(0));
  EXPECT_FALSE(buffer.pauses(0));
  while (buffer.admit(1, 2, 100)) {
  }
  EXPECT_TRUE(buffer.pauses(1));
  EXPECT_EQ(buffer.used(), buffer.capacity());
  EXPECT_FALSE(buffer.resumes(0));
  buffer.release(0, 2, 200);
  EXPECT_TRUE(buffer.resumes(0));
  EXPECT_FALSE(buffer.resumes(1));
}

TEST(FlowSizes, DrawsHaveTheMeanOfTheirDistribution) {
  for (const std::span<const SizePoint> sizes :
       {std::span<const SizePoint>(kWebSearch), std::span<const SizePoint>(kStorage)}) {
    Random random(1);
    double sum = 0;
    constexpr int kDraws = 1'000'000;
    for (int i = 0; i < kDraws; ++i) sum += static_cast<double>(draw_size(sizes, random));
    EXPECT_NEAR(sum / kDraws / mean_size(sizes), 1, 0.02);
  }
}

TEST(Workload, TheLoadIsWhatThePlanSays) {
  FabricPlan plan = small_plan();
  plan.duration = milliseconds(100);
  plan.hosts = 64;
  for (const auto traffic : {TrafficMix::web_search, TrafficMix::storage, TrafficMix::incast}) {
    plan.traffic = traffic;
    double bytes = 0;
    for (const FabricFlow& flow : make_flows(plan)) {
      EXPECT_NE(flow.from, flow.to);
      bytes += static_cast<double>(flow.bytes);
    }
    const double offered = bytes * 8 / (plan.hosts * plan.host_gbps * static_cast<double>(plan.duration.count()));
    EXPECT_NEAR(offered, plan.load, 0.05);
  }
}

}  // namespace
}  // namespace uroce::sim
