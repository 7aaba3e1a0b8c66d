// Every way to lose, repeat or hold back the first MADs of a connection.
#include <gtest/gtest.h>

#include "tests/sim/cm_world.h"

namespace uroce::test {
namespace {

using cm::CmEventKind;

CmWorldOptions one_connection(uint64_t seed, double datagram = 0) {
  return {.seed = seed, .connections = 1, .calm = true, .datagram = datagram, .spread = Nanos(0)};
}

/// A connection with 15 repetitions stands whatever happens to its first dozen MADs, and ends at both sides.
void expect_stands(const CmWorldOptions& options, const std::vector<Fate>& fates, const std::string& name) {
  ListedFaults faults(fates);
  CmWorld world(options, faults);
  ASSERT_EQ(world.run(), "") << name;
  ASSERT_EQ(world.told(CmEventKind::established), 1u) << name;
  ASSERT_EQ(world.told(CmEventKind::unreachable), 0u) << name;
  ASSERT_EQ(world.told(CmEventKind::rejected), 0u) << name;
}

class CmMasks : public testing::TestWithParam<uint64_t> {};

TEST_P(CmMasks, AnyOfTheFirstTwelveLost) {
  for (uint32_t mask = 0; mask < 1u << 12; ++mask) {
    std::vector<Fate> fates(12);
    for (uint32_t i = 0; i < 12; ++i) fates[i].drop = (mask >> i & 1) != 0;
    expect_stands(one_connection(GetParam()), fates, "lost " + std::to_string(mask));
  }
}

TEST_P(CmMasks, AnyOfTheFirstTenLostOfADatagramService) {
  for (uint32_t mask = 0; mask < 1u << 10; ++mask) {
    std::vector<Fate> fates(10);
    for (uint32_t i = 0; i < 10; ++i) fates[i].drop = (mask >> i & 1) != 0;
    expect_stands(one_connection(GetParam(), 1), fates, "lost " + std::to_string(mask));
  }
}

/// Held back for longer than a repetition takes, and sent twice: within what a packet may live.
TEST_P(CmMasks, AnyOfTheFirstSevenLostRepeatedOrLate) {
  CmWorldOptions options = one_connection(GetParam());
  options.ack_timeout = 12;  // 16.8 ms
  for (uint32_t code = 0; code < 1u << 14; ++code) {
    std::vector<Fate> fates(7);
    for (uint32_t i = 0; i < 7; ++i) {
      const uint32_t what = code >> (2 * i) & 3;
      fates[i].drop = what == 1;
      fates[i].duplicate = what == 2;
      fates[i].duplicate_delay = Nanos(3'000'000);
      if (what == 3) fates[i].delay = Nanos(5'000'000);
    }
    expect_stands(options, fates, "code " + std::to_string(code));
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, CmMasks, testing::Range<uint64_t>(1, 5));

}  // namespace
}  // namespace uroce::test
