// Memory regions by their keys, and whether a request's entries are inside them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include <uroce/types.h>

#include "validate/misuse.h"

namespace uroce::validate {

/// A key of a device. Two devices may give the same numbers.
using Key = std::pair<const void*, uint32_t>;

struct Region {
  const void* domain = nullptr;  ///< of whom it is
  uint64_t base = 0;             ///< first address in work requests
  uint64_t length = 0;
  bool in_memory = false;  ///< the process has its bytes, from `memory` on
  uint64_t memory = 0;
  bool local_write = false;

  /// The address in this process of an address in work requests.
  uint64_t host(uint64_t address) const { return memory + (address - base); }
};

/// Of the queue that a request is posted to.
struct Owner {
  const void* device;
  const void* domain;
};

class Regions {
 public:
  /// Adds a region, or gives the one of this key new values.
  void add(Key key, const Region& region);
  void remove(Key key);
  const Region* find(Key key) const;
  /// The fault of one entry of a request. `written`: the request writes there.
  std::optional<Finding> check(const Sge& sge, const Owner& owner, bool written, const std::string& request) const;

 private:
  std::map<Key, Region> regions_;
  std::deque<Key> gone_;  ///< the newest keys of regions that went
};

}  // namespace uroce::validate
