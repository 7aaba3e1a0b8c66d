// Live queue pairs move to another engine in mid-traffic: nothing is lost, repeated or late.
//
// A run is its seed. UROCE_SIM_SEED asks for one run of that seed in each test.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <tuple>

#include "tests/sim/options.h"
#include "tests/sim/world.h"
#include "transport/loss/retry_budget.h"
#include "wire/packet.h"
#include "wire/text.h"

namespace uroce::test {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr uint64_t kRuns = 4;
#else
constexpr uint64_t kRuns = 40;
#endif
/// So many meet every moment that Moments counts.
constexpr uint64_t kRunsToMeetAll = 40;

Options options() { return parse_options(0, nullptr, {.seed = 1, .runs = kRuns}); }

/// The work that queue pairs had outstanding when they moved.
struct Moments {
  uint64_t moves = 0;
  uint64_t reads = 0;
  uint64_t atomics = 0;
  uint64_t unacknowledged = 0;
  uint64_t in_message = 0;  ///< the responder had a part of a SEND or WRITE
  uint64_t rnr_waits = 0;
  uint64_t ack_timers = 0;
  uint64_t requests_buffered = 0;
  uint64_t responses_buffered = 0;
  uint64_t discovery = 0;  ///< a HELLO was to follow
  uint64_t selective = 0;
  uint64_t paced = 0;

  void add(TestQp& test_qp) {
    transport::Qp& qp = test_qp.qp();
    const auto& tx = qp.tx;
    for (uint32_t index = tx.oldest; index != tx.sq.next(); ++index) {
      const transport::SendSlot& slot = qp.slot(index);
      reads += slot.started && slot.is_read() ? 1 : 0;
      atomics += slot.started && slot.is_atomic() ? 1 : 0;
    }
    unacknowledged += tx.una != tx.sent ? 1 : 0;
    in_message += qp.rx.message.in_progress() ? 1 : 0;
    rnr_waits += tx.rnr_waiting ? 1 : 0;
    ack_timers += qp.cold->timer_pending ? 1 : 0;
    requests_buffered += tx.recovery->requests_ahead.count();
    responses_buffered += tx.recovery->responses_ahead.count();
    discovery += tx.recovery->discovery.next_hello() != kNever ? 1 : 0;
    selective += qp.selective ? 1 : 0;
    paced += qp.cold->pacing_timer.armed() ? 1 : 0;
  }
};

/// How far the new engine's clock is ahead of the network's.
enum class Clock {
  in_step,  ///< by whole ticks of the timer wheels, so that timers end at the same moments
  any,
};

/// Moves hosts' queue pairs now and then.
class Mover {
 public:
  Mover(World& world, double chance, Clock clock, uint64_t seed, Moments& seen)
      : world_(world), chance_(chance), clock_(clock), random_(seed), seen_(seen) {}

  void operator()() {
    for (std::size_t i = 0; i < world_.hosts(); ++i) {
      if (random_.chance(chance_)) move(world_.host(i));
    }
  }
  uint64_t moves() const { return moves_; }

 private:
  void move(TestEndpoint& host) {
    constexpr uint64_t kMostAhead = uint64_t{1} << 50;  // 13 days
    constexpr uint64_t kTick = TimerWheel::kTickNanos;
    const uint64_t ahead = random_.below(kMostAhead);
    for (std::size_t i = 0; i < host.qps(); ++i) seen_.add(host.qp(i));
    ++seen_.moves;
    ++moves_;
    host.move_to_new_engine(world_.network().now(),
                            Nanos(static_cast<int64_t>(clock_ == Clock::in_step ? ahead / kTick * kTick : ahead)));
  }

  World& world_;
  double chance_;
  Clock clock_;
  Random random_;
  Moments& seen_;
  uint64_t moves_ = 0;
};

/// A frame as an engine sent it.
struct Sent {
  Nanos at;
  std::size_t host;
  Frame bytes;
  bool operator==(const Sent&) const = default;
  std::string text() const {
    return fmt::format("{} ns host {}: {}", at.count(), host, wire::to_text(*wire::parse(bytes)));
  }
};

/// Everything about a run that is visible from outside the engines.
struct Seen {
  std::string violation;
  bool failed = false;
  std::vector<uint64_t> outcomes;  ///< completions and memory, by flow
  std::vector<Sent> frames;
  Nanos completed_at{0};  ///< the last completion
  uint64_t moves = 0;
};

// Timers that end at one moment do so in the order in which they were set, which a move may change. Each queue pair
// counts for itself.
std::string first_difference(std::vector<Sent> still, std::vector<Sent> moved) {
  const auto by_queue_pair = [](const Sent& sent) {
    return std::tuple(sent.at, wire::parse(sent.bytes, wire::Icrc::skip)->bth.dest_qpn);
  };
  std::ranges::stable_sort(still, {}, by_queue_pair);
  std::ranges::stable_sort(moved, {}, by_queue_pair);
  const auto [before, after] = std::ranges::mismatch(still, moved);
  if (before == still.end() && after == moved.end()) return {};
  return fmt::format("frame {} of {} and {}:\n  without a move: {}\n  with moves:     {}", before - still.begin(),
                     still.size(), moved.size(), before == still.end() ? "none" : before->text(),
                     after == moved.end() ? "none" : after->text());
}

struct Plan {
  WorldOptions world;
  FaultRates rates;
  std::vector<Op> ops;
};

enum class Faults { none, random };

Plan make_plan(uint64_t seed, Retransmission retransmission, Faults faults) {
  Random random(seed);
  Plan plan;
  WorldOptions& world = plan.world;
  world.seed = random.next() >> 8;
  world.qps = static_cast<uint32_t>(1 + random.below(3));
  world.both_ways = random.chance(0.5);
  world.slow_receiver = random.chance(0.5);
  world.send_wr = 8u << random.below(3);
  world.window_packets = 8u << random.below(6);
  world.retransmission = {retransmission, retransmission};
  world.connection.mtu = random.chance(0.5) ? Mtu::mtu256 : Mtu::mtu1024;
  world.connection.max_rd_atomic = static_cast<uint8_t>(1 + random.below(8));
  world.connection.max_dest_rd_atomic = world.connection.max_rd_atomic;
  world.connection.min_rnr_timer = static_cast<uint8_t>(1 + random.below(10));
  world.connection.timeout = static_cast<uint8_t>(8 + random.below(3));
  world.flow.max_message = 8192;
  world.flow.recv_depth = static_cast<uint32_t>(8 + random.below(24));
  world.flow.same_at_any_pace = true;
  world.prompt = true;
  static constexpr CongestionAlgorithm kAlgorithms[] = {CongestionAlgorithm::none, CongestionAlgorithm::none,
                                                        CongestionAlgorithm::dcqcn, CongestionAlgorithm::swift};
  world.congestion = kAlgorithms[random.below(std::size(kAlgorithms))];
  if (world.congestion != CongestionAlgorithm::none) world.connection.timeout = 14;
  plan.rates.mark = world.congestion == CongestionAlgorithm::dcqcn ? 0.05 : 0;
  if (faults == Faults::none) {
    plan.rates.mark = 0;
  } else {
    // The fate of a frame depends on the frames before it, of any queue pair.
    world.qps = 1;
    plan.rates.drop = 0.02;
    plan.rates.duplicate = 0.02;
    plan.rates.reorder = 0.05;
    plan.rates.corrupt = 0.005;
    plan.rates.hold_max = Nanos(static_cast<int64_t>(1'000 + random.below(30'000)));
  }
  for (int i = 0; i < 150; ++i) {
    Op op = random_op(random, world.flow);
    // The key that a SEND invalidates depends on when the one before it was freed.
    if (op.opcode == WrOpcode::send_with_invalidate) op.opcode = WrOpcode::send;
    plan.ops.push_back(op);
  }
  plan.ops.back().signaled = true;
  return plan;
}

Seen run(const Plan& plan, double move_chance, Clock clock, Moments& moments) {
  RandomFaults faults(plan.rates, plan.world.seed ^ 0xfa17);
  World world(plan.world, faults);
  Mover mover(world, move_chance, clock, plan.world.seed ^ 0x304e, moments);
  Seen seen;
  world.network().set_watch(
      [&](std::size_t host, const Frame& frame) { seen.frames.push_back({world.network().now(), host, frame}); });
  uint64_t completed = 0;
  world.set_after_events([&] {
    uint64_t now_completed = 0;
    for (std::size_t i = 0; i < world.flows(); ++i) now_completed += world.flow(i).completed();
    if (now_completed != completed) seen.completed_at = world.network().now();
    completed = now_completed;
    mover();
  });
  seen.violation = world.run(plan.ops);
  seen.failed = world.failed();
  for (std::size_t i = 0; i < world.flows(); ++i) seen.outcomes.push_back(world.flow(i).outcome());
  seen.moves = mover.moves();
  return seen;
}

void expect_good(const Seen& seen, const char* which) {
  ASSERT_EQ(seen.violation, "") << which;
  ASSERT_FALSE(seen.failed) << which;
}

class Migration : public testing::TestWithParam<Retransmission> {
 protected:
  /// Calls `body(seed)` for each, until one fails.
  template <class Body>
  void for_seeds(Body&& body) {
    const Options o = options();
    for (uint64_t seed = o.seed; seed < o.seed + o.runs; ++seed) {
      SCOPED_TRACE(fmt::format("UROCE_SIM_SEED={}", seed));
      body(seed);
      if (HasFailure()) return;
    }
  }
  /// Every frame leaves at the moment, and with the bytes, that it has without a move.
  void expect_invisible(Faults faults) {
    for_seeds([&](uint64_t seed) {
      const Plan plan = make_plan(seed, GetParam(), faults);
      Moments none;
      const Seen still = run(plan, 0, Clock::in_step, none);
      expect_good(still, "without a move");
      const Seen moved = run(plan, 0.05, Clock::in_step, moments);
      expect_good(moved, "with moves");
      EXPECT_EQ(still.outcomes, moved.outcomes);
      EXPECT_EQ(still.completed_at, moved.completed_at);
      EXPECT_EQ(first_difference(still.frames, moved.frames), "");
    });
  }
  Moments moments;
};

TEST_P(Migration, ChangesNoFrame) { expect_invisible(Faults::none); }

TEST_P(Migration, ChangesNoFrameUnderLoss) {
  expect_invisible(Faults::random);
  if (options().runs < kRunsToMeetAll) return;
  EXPECT_GT(moments.moves, 100u);
  EXPECT_GT(moments.reads, 0u);
  EXPECT_GT(moments.atomics, 0u);
  EXPECT_GT(moments.unacknowledged, 0u);
  EXPECT_GT(moments.in_message, 0u);
  EXPECT_GT(moments.rnr_waits, 0u);
  EXPECT_GT(moments.ack_timers, 0u);
  EXPECT_GT(moments.responses_buffered, 0u);
  EXPECT_GT(moments.paced, 0u);
  if (GetParam() == Retransmission::go_back_n) return;
  EXPECT_GT(moments.selective, 0u);
  EXPECT_GT(moments.requests_buffered, 0u);
  EXPECT_GT(moments.discovery, 0u);
}

// Timers tick at other moments on another clock. Nothing else may change.
TEST_P(Migration, DelaysByLessThanATimeout) {
  for_seeds([&](uint64_t seed) {
    const Plan plan = make_plan(seed, GetParam(), Faults::none);
    const Seen still = run(plan, 0, Clock::any, moments);
    expect_good(still, "without a move");
    const Seen moved = run(plan, 0.05, Clock::any, moments);
    expect_good(moved, "with moves");
    EXPECT_EQ(still.outcomes, moved.outcomes);
    const Nanos bound = transport::ack_timeout(plan.world.connection.timeout) *
                        static_cast<int64_t>(std::max<uint64_t>(moved.moves, 1));
    EXPECT_LE(moved.completed_at, still.completed_at + bound) << moved.moves << " moves";
  });
}

TEST_P(Migration, KeepsEveryInvariantUnderRandomTraffic) {
  for_seeds([&](uint64_t seed) {
    Plan plan = make_plan(seed ^ 0x5eed, GetParam(), Faults::random);
    Random random(seed);
    plan.world.loopback = random.chance(0.2);
    if (random.chance(0.3)) plan.rates.plain = 0.002;
    if (random.chance(0.3)) plan.rates.burst = 0.0005;
    RandomFaults faults(plan.rates, seed ^ 0xfa17);
    World world(plan.world, faults);
    Mover mover(world, 0.05, Clock::any, seed ^ 0x304e, moments);
    world.set_after_events(std::ref(mover));
    EXPECT_EQ(world.run_random(200, [&] { faults.stop(); }), "");
    EXPECT_FALSE(world.failed()) << world.failures();
  });
  if (options().runs >= kRunsToMeetAll) {
    EXPECT_GT(moments.moves, 10 * kRuns);
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, Migration, testing::Values(Retransmission::go_back_n, Retransmission::automatic),
                         [](const auto& mode) {
                           return mode.param == Retransmission::go_back_n ? "go_back_n" : "automatic";
                         });

}  // namespace
}  // namespace uroce::test
