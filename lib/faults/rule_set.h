// The rules of a process with their counts. Engines share them, so a rule counts the frames of all.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "base/time.h"
#include "faults/rule.h"

namespace uroce::faults {

class ActiveRule {
 public:
  /// `begin`: when it was added, on the engines' clock.
  ActiveRule(Rule what, uint32_t its_number, uint64_t its_seed, Nanos begin)
      : rule(std::move(what)),
        number(its_number),
        seed(its_seed),
        begin_(begin + rule.after),
        end_(rule.length == kNever ? kNever : begin_ + rule.length) {}

  /// When it begins to hold, and ends.
  Nanos begin() const { return begin_; }
  Nanos end() const { return end_; }
  /// Any thread: counts a frame or call that the rule chooses. The number from which its chances come, where the rule
  /// takes effect on it: the same for the n-th with the same seed. It chooses none before and after its time.
  std::optional<uint64_t> fires(Nanos now);
  /// Any engine's thread: when a frame of `bytes` that comes now may go on under the rule's rate.
  Nanos throttled_until(std::size_t bytes, Nanos now);

  const Rule rule;
  const uint32_t number;
  const uint64_t seed;
  std::atomic<uint64_t> chosen{0};
  std::atomic<uint64_t> hits{0};      ///< injections
  std::atomic<uint64_t> overflow{0};  ///< frames that were lost because there was no room to keep them

 private:
  const Nanos begin_, end_;
  std::atomic<int64_t> free_at_ns_{INT64_MIN};  ///< of a throttle
};

using Rules = std::vector<std::shared_ptr<ActiveRule>>;

/// Those of one subject, in their order. A link that is down loses frames, so it is of both frames and events.
Rules of(Subject subject, const Rules& rules);

/// All of a process. Any thread.
class RuleSet {
 public:
  static constexpr std::size_t kMost = 256;

  /// Rules without a seed get theirs from this one.
  explicit RuleSet(uint64_t seed) : seed_(seed) {}

  /// Adds all rules of `text` or none, and returns them. `now`: of the engines' clock. Errors: EINVAL of parse_rules();
  /// ENOSPC.
  Result<Rules> add(std::string_view text, std::string_view source, Nanos now);
  /// Errors: ENOENT.
  Result<void> remove(uint32_t number);
  void clear();
  Rules all() const;

 private:
  mutable std::mutex mutex_;
  const uint64_t seed_;
  uint32_t last_number_ = 0;  ///< none is used again
  Rules rules_;
};

}  // namespace uroce::faults
