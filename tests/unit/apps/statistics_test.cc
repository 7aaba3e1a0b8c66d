// Latency distribution against a sorted list; peak against its definition.
#include "perf/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace uroce::perf {
namespace {

uint64_t nearest_rank(const std::vector<uint64_t>& sorted, double percent) {
  const auto rank = static_cast<std::size_t>(std::ceil(percent * static_cast<double>(sorted.size()) / 100 - 1e-9));
  return sorted[std::max<std::size_t>(rank, 1) - 1];
}

TEST(Histogram, EmptyIsZero) {
  const Histogram h;
  EXPECT_EQ(h.count(), 0u);
  EXPECT_EQ(h.min(), 0u);
  EXPECT_EQ(h.max(), 0u);
  EXPECT_EQ(h.percentile(99), 0u);
  EXPECT_EQ(h.mean(), 0);
  EXPECT_EQ(h.stdev(), 0);
}

TEST(Histogram, OneSampleIsEverything) {
  Histogram h;
  h.add(1234567);
  for (const double percent : {0.0, 50.0, 99.9, 100.0}) EXPECT_EQ(h.percentile(percent), 1234567u);
  EXPECT_EQ(h.min(), 1234567u);
  EXPECT_EQ(h.max(), 1234567u);
  EXPECT_DOUBLE_EQ(h.mean(), 1234567);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram h;
  for (uint64_t v = 1; v <= 1000; ++v) h.add(v);
  EXPECT_EQ(h.percentile(50), 500u);
  EXPECT_EQ(h.percentile(99), 990u);
  EXPECT_EQ(h.percentile(99.9), 999u);
  EXPECT_EQ(h.percentile(100), 1000u);
  EXPECT_DOUBLE_EQ(h.mean(), 500.5);
  EXPECT_NEAR(h.stdev(), 288.675, 0.001);
}

TEST(Histogram, AgreesWithASortedListWithinATenthOfAPercent) {
  std::mt19937_64 random(11);
  for (const int bits : {8, 11, 12, 20, 33, 40}) {
    Histogram h;
    std::vector<uint64_t> all;
    for (int i = 0; i < 5000; ++i) {
      const uint64_t v = random() >> (64 - bits) >> (random() % 4);
      h.add(v);
      all.push_back(v);
    }
    std::ranges::sort(all);
    EXPECT_EQ(h.min(), all.front());
    EXPECT_EQ(h.max(), all.back());
    for (const double percent : {1.0, 50.0, 90.0, 99.0, 99.9}) {
      const auto expected = static_cast<double>(nearest_rank(all, percent));
      EXPECT_NEAR(static_cast<double>(h.percentile(percent)), expected, expected * 0.001) << bits << ' ' << percent;
    }
  }
}

TEST(Histogram, BoundariesOfBucketsAndTheLargestValue) {
  for (uint64_t v : {uint64_t{0}, uint64_t{2047}, uint64_t{2048}, uint64_t{2049}, uint64_t{4095}, uint64_t{4096},
                     uint64_t{1} << 39, (uint64_t{1} << 40) - 1, uint64_t{1} << 40}) {
    Histogram h;
    h.add(v);
    EXPECT_EQ(h.percentile(50), v);
  }
  Histogram h;
  h.add(~uint64_t{0});
  EXPECT_EQ(h.max(), uint64_t{1} << 40);
}

TEST(Histogram, ResetForgets) {
  Histogram h;
  h.add(5000);
  h.reset();
  EXPECT_EQ(h.count(), 0u);
  h.add(7);
  EXPECT_EQ(h.min(), 7u);
  EXPECT_EQ(h.percentile(100), 7u);
}

TEST(Summary, HalvesRoundTrips) {
  Histogram h;
  h.add(2000);
  h.add(4000);
  const LatencyReport half = summarize(h, 2);
  EXPECT_DOUBLE_EQ(half.min, 1.0);
  EXPECT_DOUBLE_EQ(half.max, 2.0);
  EXPECT_DOUBLE_EQ(half.average, 1.5);
  EXPECT_DOUBLE_EQ(half.stdev, 0.5);
  EXPECT_DOUBLE_EQ(summarize(h, 1).min, 2.0);
}

TEST(Directions, RatesAddUp) {
  const SizeReport a{64, 1000, 1.0, 2000, {}, 5};
  const SizeReport b{64, 3000, 2.0, 1000, {}, 7};
  const SizeReport sum = sum_of_directions(a, b);
  EXPECT_EQ(sum.iterations, 4000u);
  EXPECT_DOUBLE_EQ(sum.rate(), 2500);
  EXPECT_DOUBLE_EQ(sum.peak_rate, 3000);
  EXPECT_EQ(sum.verified, 12u);
  EXPECT_EQ(sum_of_directions({}, {}).rate(), 0);
}

TEST(Peak, IsTheBestStretchFromAPostToACompletion) {
  PeakRecorder peak(6);
  ASSERT_TRUE(peak.on());
  // One message a tick at first, then two at once within half the time.
  const uint64_t posted[] = {100, 110, 120, 130, 140, 141};
  const uint64_t completed[] = {120, 130, 140, 150, 0, 145};
  for (uint64_t i = 0; i < 6; ++i) {
    peak.posted(i, posted[i]);
    if (completed[i] != 0) peak.completed(i, completed[i]);
  }
  EXPECT_DOUBLE_EQ(peak.best(), 2.0 / 5);  // messages 4 and 5, from 140 to 145
}

TEST(Peak, OffRecordsNothing) {
  const PeakRecorder peak(0);
  EXPECT_FALSE(peak.on());
  EXPECT_EQ(peak.best(), 0);
}

}  // namespace
}  // namespace uroce::perf
