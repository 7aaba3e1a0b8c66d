// The memory that requests in flight write to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace uroce::validate {

/// Bytes [first, end) of this process.
struct Bytes {
  uint64_t first;
  uint64_t end;
  friend bool operator==(const Bytes&, const Bytes&) = default;
};

class Buffers {
 public:
  using Held = std::multimap<uint64_t, uint64_t>::iterator;

  /// Another buffer that overlaps these bytes; one that is not the same, where there is one.
  std::optional<Bytes> overlapping(Bytes bytes) const;
  Held hold(Bytes bytes);
  void release(Held held) { held_.erase(held); }

 private:
  std::multimap<uint64_t, uint64_t> held_;  ///< end by first
  uint64_t longest_ = 0;
};

}  // namespace uroce::validate
