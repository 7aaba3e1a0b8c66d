// random_sim [-v] [--trace] [--seed N] [--runs N] [--ops N]: random traffic over a faulty network. A run is its seed:
// one that fails prints it, and `--seed` (or UROCE_SIM_SEED) with `--runs 1` replays it exactly.
#include <cstdio>

#include "settings/names.h"
#include "tests/sim/options.h"
#include "tests/sim/world.h"

namespace {

using namespace uroce;
using namespace uroce::test;

/// Everything about a run follows from its seed.
struct Plan {
  WorldOptions world;
  FaultRates rates;

  explicit Plan(uint64_t seed) {
    Random random(seed);
    static constexpr Mtu kMtus[] = {Mtu::mtu256, Mtu::mtu512, Mtu::mtu1024, Mtu::mtu2048, Mtu::mtu4096};
    world.seed = random.next() >> 8;
    world.qps = static_cast<uint32_t>(1 + random.below(3));
    world.both_ways = random.chance(0.5);
    world.loopback = random.chance(0.1);
    world.slow_receiver = random.chance(0.3);
    world.send_wr = 4u << random.below(4);
    world.window_packets = 8u << random.below(8);
    for (Retransmission& side : world.retransmission) {
      side = random.chance(0.8) ? Retransmission::automatic : Retransmission::go_back_n;
    }
    if (random.chance(0.2)) world.parking_frames = static_cast<uint32_t>(random.below(8));
    world.connection.mtu = kMtus[random.below(std::size(kMtus))];
    world.connection.max_rd_atomic = static_cast<uint8_t>(1 + random.below(8));
    world.connection.max_dest_rd_atomic = static_cast<uint8_t>(world.connection.max_rd_atomic + random.below(3));
    world.connection.min_rnr_timer = static_cast<uint8_t>(1 + random.below(10));
    world.connection.timeout = static_cast<uint8_t>(6 + random.below(5));
    world.flow.max_message = random.chance(0.5) ? 2048 : 16384;
    world.flow.recv_depth = static_cast<uint32_t>(8 + random.below(24));
    const double scale = random.chance(0.2) ? 0 : random.chance(0.5) ? 0.005 : 0.03;
    rates.drop = scale * static_cast<double>(random.below(3));
    rates.duplicate = scale * static_cast<double>(random.below(3));
    rates.reorder = scale * static_cast<double>(random.below(3));
    rates.corrupt = scale * static_cast<double>(random.below(2));
    rates.hold_max = Nanos(static_cast<int64_t>(1'000 + random.below(100'000)));
    if (random.chance(0.15)) {  // Packets are sprayed over paths of unequal length.
      rates.reorder = 0.5;
      rates.hold_max = Nanos(static_cast<int64_t>(1'000 + random.below(10'000)));
    }
    if (random.chance(0.2)) rates.burst = 0.0005;
    if (random.chance(0.15)) rates.plain = 0.002;
    static constexpr CongestionAlgorithm kAlgorithms[] = {CongestionAlgorithm::none, CongestionAlgorithm::none,
                                                          CongestionAlgorithm::dcqcn, CongestionAlgorithm::swift};
    world.congestion = kAlgorithms[random.below(std::size(kAlgorithms))];
    if (random.chance(0.5)) rates.mark = 0.05;
    // A QP that is slowed down answers late. That must not use up the retries.
    if (world.congestion != CongestionAlgorithm::none) world.connection.timeout = 14;
    world.xrc = random.chance(0.15);
    if (world.xrc) world.both_ways = false;
    if (random.chance(0.5)) world.plb_rounds = static_cast<uint32_t>(1 + random.below(3));
  }
};

const char* name(Retransmission setting) { return setting == Retransmission::automatic ? "auto" : "go-back-n"; }

bool run_one(uint64_t seed, uint64_t ops, bool verbose, bool trace) {
  const Plan plan(seed);
  RandomFaults faults(plan.rates, seed ^ 0xfa17);
  World world(plan.world, faults);
  world.network().set_trace(trace);
  const std::string violation = world.run_random(ops, [&] { faults.stop(); });
  // The rates are low enough that eight losses of one thing in a row mean a bug.
  const bool good = violation.empty() && !world.failed();
  if (!good || verbose) {
    std::printf(
        "%s seed=%llu ops=%llu: recovery=%s/%s parking=%u qps=%u both_ways=%d xrc=%d loopback=%d slow_receiver=%d "
        "mtu=%u "
        "window=%u congestion=%s plb_rounds=%u mark=%.2f "
        "drop=%.3f burst=%.4f plain=%.3f duplicate=%.3f reorder=%.3f corrupt=%.3f frames=%llu virtual_ms=%lld%s%s%s\n",
        good ? "ok  " : "FAIL", static_cast<unsigned long long>(seed), static_cast<unsigned long long>(ops),
        name(plan.world.retransmission[0]), name(plan.world.retransmission[1]), plan.world.parking_frames,
        plan.world.qps, plan.world.both_ways, plan.world.xrc, plan.world.loopback, plan.world.slow_receiver,
        mtu_bytes(plan.world.connection.mtu), plan.world.window_packets, settings::name(plan.world.congestion).data(),
        plan.world.plb_rounds, plan.rates.mark, plan.rates.drop, plan.rates.burst, plan.rates.plain,
        plan.rates.duplicate, plan.rates.reorder, plan.rates.corrupt,
        static_cast<unsigned long long>(world.network().frames_sent()),
        static_cast<long long>(world.network().now().count() / 1'000'000), violation.empty() ? "" : ": ",
        violation.c_str(), world.failures().c_str());
  }
  return good;
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse_options(argc, argv, {.runs = 60, .ops = 400});
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  uint64_t failed = 0;
  for (uint64_t i = 0; i < o.runs; ++i) failed += run_one(o.seed + i, o.ops, o.verbose, o.trace) ? 0 : 1;
  std::printf("%llu runs from seed %llu, %llu failed\n", static_cast<unsigned long long>(o.runs),
              static_cast<unsigned long long>(o.seed), static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}
