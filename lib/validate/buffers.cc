#include "validate/buffers.h"

#include <algorithm>

namespace uroce::validate {

namespace {

/// A program may post one buffer thousands of times.
constexpr int kMostCompared = 64;

}  // namespace

std::optional<Bytes> Buffers::overlapping(Bytes bytes) const {
  std::optional<Bytes> same;
  auto at = held_.lower_bound(bytes.end);
  for (int compared = 0; at != held_.begin() && compared < kMostCompared; ++compared) {
    --at;
    if (at->first + longest_ <= bytes.first) break;
    const Bytes other{at->first, at->second};
    if (other.end <= bytes.first) continue;
    if (other != bytes) return other;
    same = other;
  }
  return same;
}

Buffers::Held Buffers::hold(Bytes bytes) {
  longest_ = std::max(longest_, bytes.end - bytes.first);
  return held_.emplace(bytes.first, bytes.end);
}

}  // namespace uroce::validate
