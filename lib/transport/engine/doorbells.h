// The doorbell rings that an engine polls, one per poster.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "queues/doorbell.h"

namespace uroce::transport {

class Doorbells {
 public:
  static constexpr std::size_t kMaxRings = 1024;

  Doorbells() { rings_.reserve(kMaxRings); }
  /// False: kMaxRings are attached.
  bool attach(queues::DoorbellReader reader, uint32_t id) {
    if (rings_.size() == kMaxRings) return false;
    rings_.push_back({id, reader});
    return true;
  }
  void detach(uint32_t id) {
    std::erase_if(rings_, [id](const Ring& ring) { return ring.id == id; });
  }
  /// DoorbellReader::position() of ring `id`; 0 when it is not attached.
  uint32_t position(uint32_t id) const {
    const auto ring = std::ranges::find(rings_, id, &Ring::id);
    return ring != rings_.end() ? ring->reader.position() : 0;
  }
  /// Calls `take(token, ring id)` for at most `limit` doorbells of each ring. Returns whether there were any.
  template <class Take>
  bool poll(uint32_t limit, Take&& take) {
    bool any = false;
    for (Ring& ring : rings_) {
      for (uint32_t left = limit; left > 0; --left) {
        const uint32_t token = ring.reader.take();
        if (token == 0) break;
        any = true;
        take(token, ring.id);
      }
    }
    return any;
  }
  bool empty() const {
    return std::ranges::all_of(rings_, [](const Ring& ring) { return ring.reader.empty(); });
  }
  void set_sleeping(bool sleeping) {
    for (Ring& ring : rings_) ring.reader.set_sleeping(sleeping);
  }

 private:
  struct Ring {
    uint32_t id;
    queues::DoorbellReader reader;
  };
  std::vector<Ring> rings_;
};

}  // namespace uroce::transport
