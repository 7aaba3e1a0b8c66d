#include "perf/statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace uroce::perf {

Histogram::Histogram() : buckets_(std::make_unique<uint64_t[]>(kBuckets)) {}

void Histogram::reset() {
  std::fill_n(buckets_.get(), kBuckets, 0);
  count_ = max_ = 0;
  min_ = ~uint64_t{0};
  sum_ = squares_ = 0;
}

// Values below 2^11 have a bucket each. Above, every doubling is cut into 2^10 buckets of equal width.
uint32_t Histogram::index(uint64_t ns) {
  const auto width = static_cast<uint32_t>(std::bit_width(ns));
  if (width <= kExactBits) return static_cast<uint32_t>(ns);
  const uint32_t shift = width - kExactBits;
  return shift * kHalf + static_cast<uint32_t>(ns >> shift);
}

uint64_t Histogram::middle(uint32_t bucket) {
  if (bucket < 2 * kHalf) return bucket;
  const uint32_t shift = bucket / kHalf - 1;
  const uint64_t low = uint64_t{bucket - shift * kHalf} << shift;
  return low + (uint64_t{1} << shift) / 2;
}

double Histogram::mean() const { return count_ == 0 ? 0 : sum_ / static_cast<double>(count_); }

double Histogram::stdev() const {
  if (count_ == 0) return 0;
  const double average = mean();
  return std::sqrt(std::max(0.0, squares_ / static_cast<double>(count_) - average * average));
}

uint64_t Histogram::percentile(double percent) const {
  if (count_ == 0) return 0;
  // 99.9 % of 1000 must be 999, in spite of the rounding of 0.999.
  const double exact = std::ceil(percent * static_cast<double>(count_) / 100 - 1e-9);
  const uint64_t rank = std::clamp<uint64_t>(static_cast<uint64_t>(exact), 1, count_);
  uint64_t seen = 0;
  for (uint32_t b = 0; b < kBuckets; ++b) {
    seen += buckets_[b];
    if (seen >= rank) return std::clamp(middle(b), min_, max_);
  }
  return max_;
}

LatencyReport summarize(const Histogram& samples, double divisor) {
  const double unit = 1000 * divisor;
  const auto us = [&](uint64_t ns) { return static_cast<double>(ns) / unit; };
  return {us(samples.min()),      us(samples.max()),          us(samples.percentile(50)),  samples.mean() / unit,
          samples.stdev() / unit, us(samples.percentile(99)), us(samples.percentile(99.9))};
}

SizeReport sum_of_directions(const SizeReport& a, const SizeReport& b) {
  SizeReport sum = a;
  sum.iterations = a.iterations + b.iterations;
  // Add the rates. Choose the seconds so that rate() gives the sum.
  const double rate = a.rate() + b.rate();
  sum.seconds = rate > 0 ? static_cast<double>(sum.iterations) / rate : 0;
  sum.peak_rate = a.peak_rate + b.peak_rate;
  sum.verified = a.verified + b.verified;
  return sum;
}

PeakRecorder::PeakRecorder(uint64_t messages) : posted_(messages), completed_(messages) {}

double PeakRecorder::best() const {
  double best_count = 0, best_ticks = 1;
  for (std::size_t j = 0; j < completed_.size(); ++j) {
    if (completed_[j] == 0) continue;
    for (std::size_t i = 0; i <= j; ++i) {
      if (completed_[j] <= posted_[i]) continue;
      const auto count = static_cast<double>(j - i + 1);
      const auto ticks = static_cast<double>(completed_[j] - posted_[i]);
      if (count * best_ticks > best_count * ticks) {
        best_count = count;
        best_ticks = ticks;
      }
    }
  }
  return best_count / best_ticks;
}

}  // namespace uroce::perf
