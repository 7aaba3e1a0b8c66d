#include "faults/rule_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/random.h"
#include "faults/language.h"

namespace uroce::faults {

namespace {

/// The n-th number of Random's stream from this seed, without those before it.
uint64_t number_of_stream(uint64_t seed, uint64_t n) { return Random(seed + (n - 1) * 0x9e3779b97f4a7c15).next(); }

}  // namespace

Rules of(Subject subject, const Rules& rules) {
  Rules out;
  std::ranges::copy_if(rules, std::back_inserter(out), [&](const auto& one) {
    return one->rule.subject == subject ||
           (subject == Subject::frames && acts_on_frames(one->rule.subject, one->rule.action));
  });
  return out;
}

std::optional<uint64_t> ActiveRule::fires(Nanos now) {
  if (now < begin_ || now >= end_) return std::nullopt;
  const uint64_t n = chosen.fetch_add(1, std::memory_order_relaxed) + 1;
  if (rule.nth && !rule.nth->holds(n)) return std::nullopt;
  if (n % rule.every != 0) return std::nullopt;
  const uint64_t draw = number_of_stream(seed, n);
  if (rule.probability < 1 && static_cast<double>(draw >> 11) * 0x1p-53 >= rule.probability) return std::nullopt;
  if (!rule.count) {
    hits.fetch_add(1, std::memory_order_relaxed);
    return draw;
  }
  uint64_t so_far = hits.load(std::memory_order_relaxed);
  do {
    if (so_far >= *rule.count) return std::nullopt;
  } while (!hits.compare_exchange_weak(so_far, so_far + 1, std::memory_order_relaxed));
  return draw;
}

Nanos ActiveRule::throttled_until(std::size_t bytes, Nanos now) {
  const auto time = static_cast<int64_t>(static_cast<double>(bytes) * 8e9 / static_cast<double>(rule.bits_per_s));
  int64_t free_at = free_at_ns_.load(std::memory_order_relaxed);
  int64_t begin = 0;
  do {
    begin = std::max(free_at, now.count());
  } while (!free_at_ns_.compare_exchange_weak(free_at, begin + time, std::memory_order_relaxed));
  return Nanos(begin + time);
}

Result<Rules> RuleSet::add(std::string_view text, std::string_view source, Nanos now) {
  auto parsed = parse_rules(text, source);
  if (!parsed) return std::unexpected(parsed.error());
  const std::scoped_lock lock(mutex_);
  if (rules_.size() + parsed->size() > kMost) {
    return fail(ENOSPC, fmt::format("{} fault rules are too many: {} of {} are there; clear some", parsed->size(),
                                    rules_.size(), kMost));
  }
  Rules added;
  for (Rule& rule : *parsed) {
    ++last_number_;
    const uint64_t seed = rule.seed.value_or(number_of_stream(seed_, last_number_) >> 32);
    added.push_back(std::make_shared<ActiveRule>(std::move(rule), last_number_, seed, now));
  }
  rules_.insert(rules_.end(), added.begin(), added.end());
  return added;
}

Result<void> RuleSet::remove(uint32_t number) {
  const std::scoped_lock lock(mutex_);
  if (std::erase_if(rules_, [&](const auto& one) { return one->number == number; }) != 0) return {};
  return fail(ENOENT, fmt::format("there is no fault rule {}; `uroce fault list` shows all", number));
}

void RuleSet::clear() {
  const std::scoped_lock lock(mutex_);
  rules_.clear();
}

Rules RuleSet::all() const {
  const std::scoped_lock lock(mutex_);
  return rules_;
}

}  // namespace uroce::faults
