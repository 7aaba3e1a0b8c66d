// cm_random_sim [-v] [--trace] [--seed N] [--runs N]: connections at random over a faulty link. A run is its seed: one
// that fails prints it, and `--seed` (or UROCE_SIM_SEED) with `--runs 1` replays it exactly.
#include <cstdio>

#include "tests/sim/cm_world.h"
#include "tests/sim/options.h"

namespace {

using namespace uroce;
using namespace uroce::test;
using cm::CmEventKind;

/// Everything about a run follows from its seed.
struct Plan {
  CmWorldOptions world;
  FaultRates rates;

  explicit Plan(uint64_t seed) {
    Random random(seed);
    world.seed = random.next() >> 8;
    world.connections = static_cast<uint32_t>(1 + random.below(60));
    world.calm = random.chance(0.4);
    world.datagram = random.chance(0.5) ? 0 : 0.3;
    world.retries = static_cast<uint8_t>(random.chance(0.3) ? random.below(4) : 15);
    world.cm_timeout = static_cast<uint8_t>(4 + random.below(7));
    world.ack_timeout = static_cast<uint8_t>(1 + random.below(6));
    world.backlog = random.chance(0.2) ? 2 : 64;
    world.delay = Nanos(static_cast<int64_t>(1 + random.below(100'000)));
    if (random.chance(0.3)) world.lag = Nanos(static_cast<int64_t>(random.below(3'000'000)));
    world.spread = Nanos(static_cast<int64_t>(random.below(50'000'000)));
    const double scale = random.chance(0.2) ? 0 : random.chance(0.5) ? 0.05 : 0.2;
    rates.drop = scale * static_cast<double>(random.below(3));
    rates.duplicate = scale * static_cast<double>(random.below(3));
    rates.reorder = scale * static_cast<double>(random.below(3));
    rates.hold_max = Nanos(static_cast<int64_t>(1'000 + random.below(5'000'000)));
  }
};

bool run_one(uint64_t seed, bool verbose, bool trace) {
  const Plan plan(seed);
  RandomFaults faults(plan.rates, seed ^ 0xfa17);
  CmWorld world(plan.world, faults);
  world.set_trace(trace);
  const std::string violation = world.run();
  if (!violation.empty() || verbose) {
    const auto told = [&](CmEventKind kind) { return static_cast<unsigned long long>(world.told(kind)); };
    std::printf(
        "%s seed=%llu connections=%u calm=%d retries=%u drop=%.3f duplicate=%.3f reorder=%.3f mads=%llu: requests=%llu "
        "established=%llu rejected=%llu disconnected=%llu unreachable=%llu%s%s\n",
        violation.empty() ? "ok  " : "FAIL", static_cast<unsigned long long>(seed), plan.world.connections,
        plan.world.calm, plan.world.retries, plan.rates.drop, plan.rates.duplicate, plan.rates.reorder,
        static_cast<unsigned long long>(world.mads()), told(CmEventKind::request), told(CmEventKind::established),
        told(CmEventKind::rejected), told(CmEventKind::disconnected), told(CmEventKind::unreachable),
        violation.empty() ? "" : ": ", violation.c_str());
  }
  return violation.empty();
}

}  // namespace

int main(int argc, char** argv) {
  const Options o = parse_options(argc, argv, {.runs = 1000});
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  uint64_t failed = 0;
  for (uint64_t i = 0; i < o.runs; ++i) failed += run_one(o.seed + i, o.verbose, o.trace) ? 0 : 1;
  std::printf("%llu runs from seed %llu, %llu failed\n", static_cast<unsigned long long>(o.runs),
              static_cast<unsigned long long>(o.seed), static_cast<unsigned long long>(failed));
  return failed == 0 ? 0 : 1;
}
