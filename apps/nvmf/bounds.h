// The bounds of each host, so that no host, and no crowd of strangers, shuts the target for the others.
#pragma once

#include <algorithm>
#include <cstdint>

#include "nvmf/sizes.h"

namespace uroce::nvmf {

/// Held by one host, by some hosts, or by all of them.
struct Held {
  uint32_t controllers = 0;  ///< but for discovery
  uint32_t discovery = 0;    ///< discovery controllers
  uint32_t queues = 0;       ///< after Connect, admin queues included
};

/// A listed host is one that a `hosts` list names. The shares of the others leave room for listed ones.
struct Bounds {
  uint32_t max_queues = 1024;

  /// Queues of one address, before and after Connect: a controller, and the one that follows it, fit at least.
  uint32_t queues_of_host() const { return std::max(max_queues / 4 * 3, 2 * (kIoQueues + 1)); }
  /// Queues of one address before Connect: each holds up to 1 MiB. A controller of Linux opens all of its queues first,
  /// and several controllers at once when their target comes back.
  uint32_t waiting_of_host() const { return std::max(max_queues / 4, kIoQueues + 1); }

  /// The bounds of all hosts together.
  Held all() const { return {kIoControllers, discovery(), max_queues}; }
  /// The bounds of one address, and of one NQN.
  Held of_host() const { return {kIoControllers / 4, std::min(kHostDiscovery, discovery()), queues_of_host()}; }
  /// The bounds of all hosts together that no list names.
  Held of_unlisted() const { return {kIoControllers / 4 * 3, discovery() / 2, max_queues - max_queues / 4}; }

 private:
  uint32_t discovery() const { return std::clamp(max_queues / 4, 2u, kDiscoveryControllers); }
};

}  // namespace uroce::nvmf
