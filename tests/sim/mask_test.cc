// Every way to lose, repeat or break the first frames of a short exchange.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>

#include "tests/sim/world.h"

namespace uroce::test {
namespace {

struct Exchange {
  const char* name;
  std::vector<Op> ops;
};

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
      {"mixed",
       {op(WrOpcode::rdma_write, 300), op(WrOpcode::rdma_read, 300), op(WrOpcode::fetch_add, 8),
        op(WrOpcode::send, 10)}},
  };
}

WorldOptions small_world(uint64_t seed, Retransmission retransmission) {
  WorldOptions options;
  options.seed = seed;
  options.retransmission = retransmission;
  options.connection.mtu = Mtu::mtu256;
  options.connection.timeout = 4;  // 65.5 us
  options.connection.max_rd_atomic = 2;
  options.connection.max_dest_rd_atomic = 2;
  options.flow.max_message = 1024;
  options.flow.recv_depth = 8;
  options.send_wr = 8;
  return options;
}

class Masks : public testing::TestWithParam<std::tuple<std::size_t, Retransmission>> {
 protected:
  /// `most_losses`: more lost frames than this may exhaust retry_cnt 7.
  void run(std::vector<Fate> fates, int losses, const std::string& what) {
    const auto [number, retransmission] = GetParam();
    const Exchange exchange = exchanges()[number];
    ListedFaults faults(std::move(fates));
    World world(small_world(number + 1, retransmission), faults);
    const std::string violation = world.run(exchange.ops);
    ASSERT_EQ(violation, "") << exchange.name << " " << what;
    if (losses <= 7) {
      ASSERT_FALSE(world.failed()) << exchange.name << " " << what;
    }
    if (world.failed()) {
      ASSERT_EQ(*world.flow(0).failure(), WcStatus::retry_exceeded) << exchange.name << " " << what;
    }
  }
};

TEST_P(Masks, EveryLossOfTheFirstElevenFrames) {
  constexpr uint32_t kFrames = 11;
  for (uint32_t mask = 0; mask < 1u << kFrames; ++mask) {
    std::vector<Fate> fates(kFrames);
    for (uint32_t i = 0; i < kFrames; ++i) fates[i].drop = (mask >> i & 1) != 0;
    run(fates, std::popcount(mask), fmt::format("loss mask {:#x}", mask));
    if (HasFatalFailure()) return;
  }
}

TEST_P(Masks, EveryRepetitionOfTheFirstEightFrames) {
  constexpr uint32_t kFrames = 8;
  for (uint32_t mask = 0; mask < 1u << kFrames; ++mask) {
    for (Nanos late : {Nanos(0), Nanos(5'000)}) {
      std::vector<Fate> fates(kFrames);
      for (uint32_t i = 0; i < kFrames; ++i) {
        fates[i].duplicate = (mask >> i & 1) != 0;
        fates[i].duplicate_delay = late;
      }
      run(fates, 0, fmt::format("repetition mask {:#x}, {} ns late", mask, late.count()));
      if (HasFatalFailure()) return;
    }
  }
}

/// Each of the first frames arrives, is lost, is doubled, or is overtaken: 4^5.
TEST_P(Masks, EveryMixOfFatesOfTheFirstFiveFrames) {
  constexpr uint32_t kFrames = 5;
  for (uint32_t mix = 0; mix < 1u << (2 * kFrames); ++mix) {
    std::vector<Fate> fates(kFrames);
    int losses = 0;
    for (uint32_t i = 0; i < kFrames; ++i) {
      switch (mix >> (2 * i) & 3) {
        case 1:
          fates[i].drop = true;
          ++losses;
          break;
        case 2:
          fates[i].duplicate = true;
          fates[i].duplicate_delay = Nanos(3'000);
          break;
        case 3: fates[i].delay = Nanos(3'000); break;
        default: break;
      }
    }
    run(fates, losses, fmt::format("mix {:#x}", mix));
    if (HasFatalFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Exchanges, Masks,
                         testing::Combine(testing::Range<std::size_t>(0, exchanges().size()),
                                          testing::Values(Retransmission::go_back_n, Retransmission::automatic)),
                         [](const auto& param) {
                           const bool selective = std::get<1>(param.param) == Retransmission::automatic;
                           return std::string(exchanges()[std::get<0>(param.param)].name) +
                                  (selective ? "_selective" : "_go_back_n");
                         });

}  // namespace
}  // namespace uroce::test
