// How many registrations hold each page.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>

#include "sharing/page_intervals.h"

namespace uroce::sharing {

/// Addresses with a count each; those that were never added have 0.
class PageCounts {
 public:
  void add(uintptr_t first, uintptr_t end) {
    if (first >= end) return;
    split(first);
    split(end);
    uintptr_t at = first;
    for (auto next = counts_.lower_bound(first); at < end; at = next->second.end, ++next) {
      if (next == counts_.end() || next->first > at) {
        const uintptr_t to = next == counts_.end() ? end : std::min(end, next->first);
        next = counts_.emplace_hint(next, at, Count{to, 0});
      }
      ++next->second.times;
    }
    merge(first, end);
  }

  /// The inverse of one add(). Returns what nobody holds any more.
  Intervals::List remove(uintptr_t first, uintptr_t end) {
    Intervals::List free;
    if (first >= end) return free;
    split(first);
    split(end);
    for (auto at = counts_.lower_bound(first); at != counts_.end() && at->first < end;) {
      if (--at->second.times > 0) {
        ++at;
        continue;
      }
      if (!free.empty() && free.back().second == at->first) {
        free.back().second = at->second.end;
      } else {
        free.emplace_back(at->first, at->second.end);
      }
      at = counts_.erase(at);
    }
    merge(first, end);
    return free;
  }

  /// The parts of [first, end) that somebody holds.
  Intervals::List within(uintptr_t first, uintptr_t end) const {
    Intervals::List parts;
    auto at = counts_.upper_bound(first);
    if (at != counts_.begin()) --at;
    for (; at != counts_.end() && at->first < end; ++at) {
      const uintptr_t from = std::max(first, at->first), to = std::min(end, at->second.end);
      if (from < to) parts.emplace_back(from, to);
    }
    return parts;
  }

  Intervals::List all() const { return within(0, UINTPTR_MAX); }
  void clear() { counts_.clear(); }

 private:
  struct Count {
    uintptr_t end;
    std::size_t times;
  };

  void split(uintptr_t address) {
    auto at = counts_.lower_bound(address);
    if (at == counts_.begin()) return;
    --at;
    if (at->second.end <= address) return;
    counts_.emplace(address, at->second);
    at->second.end = address;
  }

  // One entry for neighbours of the same count.
  void merge(uintptr_t first, uintptr_t end) {
    auto at = counts_.lower_bound(first);
    if (at != counts_.begin()) --at;
    while (at != counts_.end() && at->first <= end) {
      const auto next = std::next(at);
      if (next == counts_.end()) return;
      if (next->first == at->second.end && next->second.times == at->second.times) {
        at->second.end = next->second.end;
        counts_.erase(next);
      } else {
        at = next;
      }
    }
  }

  std::map<uintptr_t, Count> counts_;  // by the first address; neither empty nor overlapping
};

}  // namespace uroce::sharing
