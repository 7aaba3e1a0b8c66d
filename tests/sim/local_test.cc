// Engines of one thread hand frames over as descriptors, and the payload stays where it is until it is placed. Nothing
// else may differ: the same requests leave the same completions and the same memory as over frames.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/sim/world.h"

namespace uroce::test {
namespace {

constexpr uint64_t kSeeds = 40;

struct Plan {
  WorldOptions world;
  std::vector<Op> ops;
};

Plan make_plan(uint64_t seed) {
  Random random(seed);
  Plan plan;
  WorldOptions& world = plan.world;
  world.seed = random.next() >> 8;
  world.qps = static_cast<uint32_t>(1 + random.below(3));
  world.both_ways = random.chance(0.5);
  world.loopback = random.chance(0.4);
  world.slow_receiver = random.chance(0.5);  // requests wait in reorder buffers
  world.xrc = !world.both_ways && random.chance(0.3);
  world.send_wr = 8u << random.below(3);
  world.window_packets = 8u << random.below(6);
  const auto retransmission = random.chance(0.7) ? Retransmission::automatic : Retransmission::go_back_n;
  world.retransmission = {retransmission, retransmission};
  world.connection.mtu = random.chance(0.5) ? Mtu::mtu256 : Mtu::mtu4096;
  world.connection.max_rd_atomic = static_cast<uint8_t>(1 + random.below(8));
  world.connection.max_dest_rd_atomic = world.connection.max_rd_atomic;
  world.connection.min_rnr_timer = static_cast<uint8_t>(1 + random.below(10));
  world.connection.timeout = 10;
  world.flow.max_message = 16384;
  world.flow.recv_depth = static_cast<uint32_t>(8 + random.below(24));
  world.flow.same_at_any_pace = true;
  for (int i = 0; i < 300; ++i) {
    Op op = random_op(random, world.flow);
    // The key that a SEND invalidates depends on when the one before it was freed.
    if (op.opcode == WrOpcode::send_with_invalidate) op.opcode = WrOpcode::send;
    plan.ops.push_back(op);
  }
  plan.ops.back().signaled = true;
  return plan;
}

struct Seen {
  std::vector<uint64_t> outcomes;
  uint64_t local_frames = 0;
  uint64_t parked = 0;
};

void run(const Plan& plan, double local, Seen& seen) {
  WorldOptions options = plan.world;
  options.local = local;
  RandomFaults faults({}, 1);
  World world(options, faults);
  ASSERT_EQ(world.run(plan.ops), "");
  ASSERT_FALSE(world.failed()) << world.failures();
  for (std::size_t i = 0; i < world.flows(); ++i) seen.outcomes.push_back(world.flow(i).outcome());
  for (std::size_t i = 0; i < world.hosts(); ++i) {
    seen.parked += world.host(i).engine().counters().parked_packets.get();
  }
  seen.local_frames = world.local_frames();
}

TEST(LocalFrames, LeaveTheSameMemoryAndCompletions) {
  uint64_t local = 0;
  uint64_t parked = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const Plan plan = make_plan(seed);
    Seen over_frames;
    run(plan, 0, over_frames);
    EXPECT_EQ(over_frames.local_frames, 0u);
    for (const double chance : {1.0, 0.7}) {
      SCOPED_TRACE(fmt::format("chance {}", chance));
      Seen seen;
      run(plan, chance, seen);
      if (HasFatalFailure()) return;
      EXPECT_EQ(seen.outcomes, over_frames.outcomes);
      EXPECT_GT(seen.local_frames, 100u);
      local += seen.local_frames;
      parked += seen.parked;
    }
  }
  EXPECT_GT(local, 10'000u);
  EXPECT_GT(parked, 0u) << "some were kept ahead of their turn";
}

}  // namespace
}  // namespace uroce::test
