// The services that have a listener.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "cm/ib/backlog.h"

namespace uroce::cm {

struct Listener {
  uint64_t token = 0;  ///< the listener's own name for itself
  std::shared_ptr<Backlog> backlog;
};

class Listeners {
 public:
  /// Errors: EADDRINUSE (the same id and mask).
  Result<void> add(uint64_t service_id, uint64_t mask, Listener listener);
  void remove(uint64_t service_id, uint64_t mask);
  /// The listener whose mask is the most specific of those that match; nullptr: there is none.
  const Listener* find(uint64_t service_id) const;

 private:
  /// Masks, the most specific first, each with its services.
  std::vector<std::pair<uint64_t, std::unordered_map<uint64_t, Listener>>> masks_;
};

}  // namespace uroce::cm
