// Results of a run: latency distribution, bandwidth, peak bandwidth.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace uroce::perf {

/// Counts latencies exactly up to 2047 ns and to 0.1 % above, in constant memory and without sorting.
class Histogram {
 public:
  Histogram();

  /// Adds one sample in nanoseconds; larger ones count as 2^40 (18 minutes).
  void add(uint64_t ns) {
    if (ns > kLargest) ns = kLargest;
    ++buckets_[index(ns)];
    ++count_;
    sum_ += static_cast<double>(ns);
    squares_ += static_cast<double>(ns) * static_cast<double>(ns);
    if (ns < min_) min_ = ns;
    if (ns > max_) max_ = ns;
  }
  void reset();

  uint64_t count() const { return count_; }
  uint64_t min() const { return count_ == 0 ? 0 : min_; }
  uint64_t max() const { return max_; }
  double mean() const;
  double stdev() const;
  /// The nearest-rank percentile, nanoseconds: at least `percent` of the samples are not larger.
  uint64_t percentile(double percent) const;

 private:
  static constexpr uint32_t kExactBits = 11;  ///< of 2^11 buckets the first half is exact, each later half coarser
  static constexpr uint64_t kLargest = uint64_t{1} << 40;
  static constexpr uint32_t kHalf = 1u << (kExactBits - 1);
  static constexpr uint32_t kBuckets = kHalf * (40 - kExactBits + 3);

  static uint32_t index(uint64_t ns);
  static uint64_t middle(uint32_t bucket);

  std::unique_ptr<uint64_t[]> buckets_;
  uint64_t count_ = 0;
  uint64_t min_ = ~uint64_t{0};
  uint64_t max_ = 0;
  double sum_ = 0;
  double squares_ = 0;
};

/// Latencies as printed, microseconds.
struct LatencyReport {
  double min = 0, max = 0, typical = 0, average = 0, stdev = 0, p99 = 0, p999 = 0;
};

/// `divisor` is 2 when the samples are round trips and the report is for one way, as in perftest.
LatencyReport summarize(const Histogram& samples, double divisor);

/// One side's measurements at one size.
struct SizeReport {
  uint64_t size = 0;        ///< bytes
  uint64_t iterations = 0;  ///< messages in the measured time, all QPs
  double seconds = 0;       ///< measured time
  double peak_rate = 0;     ///< messages a second; 0 when not measured
  LatencyReport latency{};  ///< latency tests
  uint64_t verified = 0;    ///< messages that this side checked, every byte

  double rate() const { return seconds > 0 ? static_cast<double>(iterations) / seconds : 0; }
};

/// Adds up both directions of a bidirectional run.
SizeReport sum_of_directions(const SizeReport& a, const SizeReport& b);

/// Times at which messages were posted and completed, for the peak: the best rate over any stretch that starts with a
/// post and ends with a completion, as perftest defines it. Times are ticks of any steady clock.
class PeakRecorder {
 public:
  /// Prepares for `messages`; 0 switches it off. Allocates all memory.
  explicit PeakRecorder(uint64_t messages);
  bool on() const { return !posted_.empty(); }
  void posted(uint64_t index, uint64_t ticks) { posted_[index] = ticks; }
  /// Records that message `index` and all before it are complete.
  void completed(uint64_t index, uint64_t ticks) { completed_[index] = ticks; }
  /// The peak in messages per tick; 0 when switched off.
  double best() const;

 private:
  std::vector<uint64_t> posted_;
  std::vector<uint64_t> completed_;  ///< 0 where no completion was reported
};

}  // namespace uroce::perf
