// Every way to lose, repeat or break the first frames of a short exchange.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/sim/world.h"

namespace uroce::test {
namespace {

#ifdef __SANITIZE_ADDRESS__
// Sixteen times slower, and nothing new about memory in the longest masks.
constexpr uint32_t kLongMask = 9;
#else
constexpr uint32_t kLongMask = 12;
#endif

struct Exchange {
  const char* name;
  std::vector<Op> ops;
  bool xrc = false;
};

/// The same operations on another memory.
std::vector<Op> in(LocalMemory memory, std::vector<Op> ops) {
  for (Op& op : ops) op.local = memory;
  return ops;
}
std::vector<Op> zero_based(std::vector<Op> ops) {
  for (Op& op : ops) op.zero_based = true;
  return ops;
}

std::vector<Exchange> exchanges() {
  const auto op = [](WrOpcode opcode, uint32_t length) { return Op{.opcode = opcode, .length = length}; };
  return {
      {"send", {op(WrOpcode::send, 600)}},
      {"sends", {op(WrOpcode::send, 8), op(WrOpcode::send_with_imm, 300), op(WrOpcode::send_with_invalidate, 0)}},
      {"write", {op(WrOpcode::rdma_write, 700)}},
      {"write_imm", {op(WrOpcode::rdma_write_with_imm, 300), op(WrOpcode::rdma_write, 300)}},
      {"read", {op(WrOpcode::rdma_read, 700)}},
      {"reads", {op(WrOpcode::rdma_read, 300), op(WrOpcode::rdma_read, 8), op(WrOpcode::rdma_read, 500)}},
      {"fetch_add", {op(WrOpcode::fetch_add, 8), op(WrOpcode::fetch_add, 8), op(WrOpcode::fetch_add, 8)}},
      {"compare_swap", {op(WrOpcode::compare_swap, 8), op(WrOpcode::compare_swap, 8)}},
      {"atomic_write", {op(WrOpcode::atomic_write, 0), op(WrOpcode::fetch_add, 8), op(WrOpcode::atomic_write, 0)}},
      {"flush", {op(WrOpcode::rdma_write, 300), op(WrOpcode::flush, 0), op(WrOpcode::atomic_write, 0)}},
      {"mixed",
       {op(WrOpcode::rdma_write, 300), op(WrOpcode::rdma_read, 300), op(WrOpcode::fetch_add, 8),
        op(WrOpcode::send, 10)}},
      {"xrc",
       {op(WrOpcode::send, 300), op(WrOpcode::rdma_write, 10), op(WrOpcode::rdma_read, 300),
        op(WrOpcode::atomic_write, 0), op(WrOpcode::send_with_imm, 8)},
       true},
      {"null_region", in(LocalMemory::null_region, {op(WrOpcode::rdma_write, 300), op(WrOpcode::rdma_read, 600),
                                                    op(WrOpcode::fetch_add, 8), op(WrOpcode::send, 300)})},
      {"on_demand", in(LocalMemory::on_demand, {op(WrOpcode::rdma_write, 300), op(WrOpcode::rdma_read, 300),
                                                op(WrOpcode::compare_swap, 8), op(WrOpcode::send, 300)})},
      {"device_memory", zero_based({op(WrOpcode::rdma_write, 300), op(WrOpcode::fetch_add, 8), op(WrOpcode::flush, 0),
                                    op(WrOpcode::rdma_read, 300), op(WrOpcode::atomic_write, 0)})},
  };
}

WorldOptions small_world(uint64_t seed, Retransmission retransmission) {
  WorldOptions options;
  options.seed = seed;
  options.retransmission = {retransmission, retransmission};
  options.connection.mtu = Mtu::mtu256;
  options.connection.timeout = 4;  // 65.5 us
  options.connection.max_rd_atomic = 2;
  options.connection.max_dest_rd_atomic = 2;
  options.flow.max_message = 1024;
  options.flow.recv_depth = 8;
  options.flow.area = 4096;
  options.send_wr = 8;
  // No exchange has so many packets or regions. A thousand frames and regions would take most of the time, to be made
  // for each of the many masks.
  options.window_packets = 16;
  options.parking_frames = 32;
  options.max_regions = 64;
  return options;
}

/// When the network begins to harm frames.
enum class Harm { discovery_too, traffic_only };

class Masks : public testing::TestWithParam<std::size_t> {
 protected:
  /// Every invariant holds, and with as few losses as retry_cnt 7 survives all has completed. `outcome`: what came of
  /// it, 0 for a failure.
  void run(Retransmission retransmission, Harm harm, const std::vector<Fate>& fates, int losses,
           const std::string& what, uint64_t& outcome) {
    const Exchange exchange = exchanges()[GetParam()];
    ListedFaults faults(fates, ListedFaults::Start::at_begin);
    WorldOptions options = small_world(GetParam() + 1, retransmission);
    options.xrc = exchange.xrc;
    World world(options, faults);
    if (harm == Harm::traffic_only) world.settle();
    faults.begin();
    const std::string violation = world.run(exchange.ops);
    ASSERT_EQ(violation, "") << exchange.name << " " << what;
    if (losses <= 7) {
      ASSERT_FALSE(world.failed()) << exchange.name << " " << what;
    }
    if (world.failed()) {
      ASSERT_EQ(*world.flow(0).failure(), WcStatus::retry_exceeded) << exchange.name << " " << what;
    }
    outcome = world.failed() ? 0 : world.flow(0).outcome();
  }
  /// The same fates for the traffic in both modes, with the same outcome.
  void run_both(const std::vector<Fate>& fates, int losses, const std::string& what) {
    uint64_t go_back_n = 0;
    uint64_t selective = 0;
    run(Retransmission::go_back_n, Harm::traffic_only, fates, losses, what + ", Go-Back-N", go_back_n);
    if (HasFatalFailure()) return;
    run(Retransmission::automatic, Harm::traffic_only, fates, losses, what + ", selective", selective);
    if (HasFatalFailure() || go_back_n == 0 || selective == 0) return;
    ASSERT_EQ(go_back_n, selective) << what;
  }
  void run_discovery(const std::vector<Fate>& fates, int losses, const std::string& what) {
    uint64_t outcome = 0;
    run(Retransmission::automatic, Harm::discovery_too, fates, losses, what, outcome);
  }
};

std::vector<Fate> losses_of(uint32_t mask, uint32_t frames) {
  std::vector<Fate> fates(frames);
  for (uint32_t i = 0; i < frames; ++i) fates[i].drop = (mask >> i & 1) != 0;
  return fates;
}

std::vector<Fate> repetitions_of(uint32_t mask, uint32_t frames, Nanos late) {
  std::vector<Fate> fates(frames);
  for (uint32_t i = 0; i < frames; ++i) fates[i] = {.duplicate = (mask >> i & 1) != 0, .duplicate_delay = late};
  return fates;
}

/// Two bits for each frame: it arrives, is lost, is doubled, or is overtaken.
std::vector<Fate> mix_of(uint32_t mix, uint32_t frames, int& losses) {
  std::vector<Fate> fates(frames);
  losses = 0;
  for (uint32_t i = 0; i < frames; ++i) {
    switch (mix >> (2 * i) & 3) {
      case 1:
        fates[i].drop = true;
        ++losses;
        break;
      case 2: fates[i] = {.duplicate = true, .duplicate_delay = Nanos(3'000)}; break;
      case 3: fates[i].delay = Nanos(3'000); break;
      default: break;
    }
  }
  return fates;
}

class Losses : public Masks {};
class Repetitions : public Masks {};
class Mixes : public Masks {};
class Discovery : public Masks {};

TEST_P(Losses, OfTheFirstTwelveFrames) {
  constexpr uint32_t kFrames = kLongMask;
  for (uint32_t mask = 0; mask < 1u << kFrames; ++mask) {
    run_both(losses_of(mask, kFrames), std::popcount(mask), fmt::format("loss mask {:#x}", mask));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Repetitions, OfTheFirstTwelveFrames) {
  constexpr uint32_t kFrames = kLongMask;
  for (uint32_t mask = 0; mask < 1u << kFrames; ++mask) {
    run_both(repetitions_of(mask, kFrames, Nanos(5'000)), 0, fmt::format("repetition mask {:#x}", mask));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Repetitions, BackToBackOfTheFirstEightFrames) {
  constexpr uint32_t kFrames = 8;
  for (uint32_t mask = 0; mask < 1u << kFrames; ++mask) {
    run_both(repetitions_of(mask, kFrames, Nanos(0)), 0, fmt::format("repetition mask {:#x}", mask));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Mixes, OfTheFirstFiveFrames) {
  constexpr uint32_t kFrames = 5;
  for (uint32_t mix = 0; mix < 1u << (2 * kFrames); ++mix) {
    int losses = 0;
    const std::vector<Fate> fates = mix_of(mix, kFrames, losses);
    run_both(fates, losses, fmt::format("mix {:#x}", mix));
    if (HasFatalFailure()) return;
  }
}

/// Traffic begins while the peers find each other.
TEST_P(Discovery, LossesOfTheFirstTenFrames) {
  constexpr uint32_t kFrames = kLongMask - 2;
  for (uint32_t mask = 0; mask < 1u << kFrames; ++mask) {
    run_discovery(losses_of(mask, kFrames), std::popcount(mask), fmt::format("loss mask {:#x}", mask));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Discovery, MixesOfTheFirstFiveFrames) {
  constexpr uint32_t kFrames = 5;
  for (uint32_t mix = 0; mix < 1u << (2 * kFrames); ++mix) {
    int losses = 0;
    const std::vector<Fate> fates = mix_of(mix, kFrames, losses);
    run_discovery(fates, losses, fmt::format("mix {:#x}", mix));
    if (HasFatalFailure()) return;
  }
}

std::string exchange_name(const testing::TestParamInfo<std::size_t>& param) { return exchanges()[param.param].name; }
const auto kExchanges = testing::Range<std::size_t>(0, exchanges().size());
INSTANTIATE_TEST_SUITE_P(Exchanges, Losses, kExchanges, exchange_name);
INSTANTIATE_TEST_SUITE_P(Exchanges, Repetitions, kExchanges, exchange_name);
INSTANTIATE_TEST_SUITE_P(Exchanges, Mixes, kExchanges, exchange_name);
INSTANTIATE_TEST_SUITE_P(Exchanges, Discovery, kExchanges, exchange_name);

}  // namespace
}  // namespace uroce::test
