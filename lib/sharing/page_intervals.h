// A set of addresses, kept as intervals.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

namespace uroce::sharing {

class Intervals {
 public:
  using List = std::vector<std::pair<uintptr_t, uintptr_t>>;  ///< [first, end), by address

  void add(uintptr_t first, uintptr_t end) {
    if (first >= end) return;
    auto at = set_.upper_bound(first);
    if (at != set_.begin() && std::prev(at)->second >= first) --at;
    while (at != set_.end() && at->first <= end) {  // merge the intervals that it touches
      first = std::min(first, at->first);
      end = std::max(end, at->second);
      at = set_.erase(at);
    }
    set_.emplace_hint(at, first, end);
  }

  void remove(uintptr_t first, uintptr_t end) {
    for (const auto& [from, to] : within(first, end)) {
      auto at = std::prev(set_.upper_bound(from));
      const auto [outer_first, outer_end] = *at;
      set_.erase(at);
      add(outer_first, from);
      add(to, outer_end);
    }
  }

  /// The parts of the set that lie in [first, end).
  List within(uintptr_t first, uintptr_t end) const {
    List parts;
    auto at = set_.upper_bound(first);
    if (at != set_.begin()) --at;
    for (; at != set_.end() && at->first < end; ++at) {
      const auto from = std::max(first, at->first), to = std::min(end, at->second);
      if (from < to) parts.emplace_back(from, to);
    }
    return parts;
  }

  List all() const { return {set_.begin(), set_.end()}; }
  void clear() { set_.clear(); }

 private:
  std::map<uintptr_t, uintptr_t> set_;
};

}  // namespace uroce::sharing
