// The shortcuts for plain packets and requests against the general way: the same frames at the same moments, the same
// completions, the same memory.
//
// A run is its seed. UROCE_SIM_SEED asks for one run of that seed in each test.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "tests/sim/options.h"
#include "tests/sim/two_ways.h"
#include "tests/sim/world.h"

namespace uroce::test {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kRuns = 10;
#else
constexpr uint64_t kRuns = 100;
#endif

/// The frames that each host of a run sent, and the results that its applications saw.
struct Seen {
  std::vector<SeenFrame> frames;
  std::string violation;
  std::string failures;
  std::vector<uint64_t> outcomes;
  std::vector<std::vector<uint64_t>> counters;
};

struct Plan {
  WorldOptions world;
  FaultRates rates;
  std::vector<Op> ops;
};

/// How often an operation is of each kind; the rest are WRITEs.
struct Mix {
  double sends = 0;
  double reads = 0;  ///< and atomics
  double longs = 0;  ///< of several packets
};

WrOpcode draw_opcode(Random& random, const Mix& mix) {
  static constexpr WrOpcode kReads[] = {WrOpcode::rdma_read, WrOpcode::rdma_read, WrOpcode::fetch_add,
                                        WrOpcode::compare_swap};
  if (random.chance(mix.reads)) return kReads[random.below(std::size(kReads))];
  return random.chance(mix.sends) ? WrOpcode::send : WrOpcode::rdma_write;
}

// Mostly what shortcuts take, of one packet and of several, with everything else between.
Op draw_op(Random& random, const WorldOptions& world, const Mix& mix) {
  Op op = random_op(random, world.flow);
  if (op.opcode == WrOpcode::send_with_invalidate) op.opcode = WrOpcode::send;
  if (!random.chance(0.7)) return op;
  op.opcode = draw_opcode(random, mix);
  const uint32_t most = random.chance(mix.longs) ? world.flow.max_message : mtu_bytes(world.connection.mtu) + 1;
  op.length = static_cast<uint32_t>(random.below(most + 1));
  if (is_atomic(op.opcode)) op.length = sizeof(uint64_t);
  op.inline_data = false;
  op.signaled = random.chance(0.2);
  return op;
}

Plan make_plan(uint64_t seed) {
  Random random(seed);
  Plan plan;
  WorldOptions& world = plan.world;
  world.seed = random.next() >> 8;
  world.qps = static_cast<uint32_t>(1 + random.below(4));
  world.both_ways = random.chance(0.5);
  world.loopback = random.chance(0.1);
  world.slow_receiver = random.chance(0.3);
  world.prompt = random.chance(0.5);
  world.send_wr = 4u << random.below(5);
  world.window_packets = 4u << random.below(7);
  for (Retransmission& side : world.retransmission) {
    side = random.chance(0.6) ? Retransmission::automatic : Retransmission::go_back_n;
  }
  world.connection.mtu = random.chance(0.5) ? Mtu::mtu256 : Mtu::mtu1024;
  world.connection.timeout = static_cast<uint8_t>(8 + random.below(3));
  world.flow.max_message = 4096;
  world.flow.recv_depth = static_cast<uint32_t>(8 + random.below(24));
  world.flow.signal_all = random.chance(0.2);
  world.flow.same_at_any_pace = true;
  static constexpr CongestionAlgorithm kAlgorithms[] = {CongestionAlgorithm::none, CongestionAlgorithm::none,
                                                        CongestionAlgorithm::dcqcn, CongestionAlgorithm::swift};
  world.congestion = kAlgorithms[random.below(std::size(kAlgorithms))];
  if (world.congestion != CongestionAlgorithm::none) world.connection.timeout = 14;
  const double scale = random.chance(0.4) ? 0 : 0.01;
  plan.rates = {.drop = scale,
                .duplicate = scale,
                .reorder = 3 * scale,
                .corrupt = scale / 4,
                .mark = random.chance(0.3) ? 0.05 : 0,
                .hold_max = Nanos(static_cast<int64_t>(1'000 + random.below(30'000)))};
  const Mix mix{.sends = 0.5 * static_cast<double>(random.below(3)),
                .reads = 0.45 * static_cast<double>(random.below(3)),
                .longs = 0.4 * static_cast<double>(random.below(3))};
  // Header prediction lives by messages that are alike.
  const double alike = 0.45 * static_cast<double>(random.below(3));
  for (int i = 0; i < 200; ++i) {
    const bool plain = i > 0 && plan.ops.back().local == LocalMemory::region;
    plan.ops.push_back(plain && random.chance(alike) ? plan.ops.back() : draw_op(random, world, mix));
    if (plan.ops.back().opcode == WrOpcode::send_with_invalidate) plan.ops.back().opcode = WrOpcode::send;
  }
  plan.ops.back().signaled = true;
  return plan;
}

Seen run(const Plan& plan, bool plain_path) {
  WorldOptions options = plan.world;
  options.plain_path = plain_path;
  RandomFaults faults(plan.rates, options.seed ^ 0xfa17);
  World world(options, faults);
  Seen seen;
  world.network().set_watch(
      [&](std::size_t host, const Frame& frame) { seen.frames.push_back({world.network().now(), host, frame}); });
  seen.violation = world.run(plan.ops);
  seen.failures = world.failures();
  for (std::size_t i = 0; i < world.flows(); ++i) seen.outcomes.push_back(world.flow(i).outcome());
  for (std::size_t i = 0; i < world.hosts(); ++i) {
    seen.counters.push_back(counters_of(world.host(i).engine()));
  }
  return seen;
}

TEST(PlainPath, SendsTheFramesOfTheGeneralWay) {
  const Options o = parse_options(0, nullptr, {.seed = 1, .runs = kRuns});
  for (uint64_t seed = o.seed; seed < o.seed + o.runs; ++seed) {
    SCOPED_TRACE(fmt::format("UROCE_SIM_SEED={}", seed));
    const Plan plan = make_plan(seed);
    const Seen general = run(plan, false);
    const Seen plain = run(plan, true);
    EXPECT_EQ(general.violation, "");
    EXPECT_EQ(general.failures, "");
    EXPECT_EQ(first_difference(general.frames, plain.frames), "");
    EXPECT_EQ(general.violation, plain.violation);
    EXPECT_EQ(general.outcomes, plain.outcomes);
    EXPECT_EQ(general.counters, plain.counters);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace uroce::test
