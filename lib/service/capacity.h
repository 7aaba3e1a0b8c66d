// How much of each resource there is: what the devices, the process and the machine allow.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "control/device.h"
#include "service/resource.h"

namespace uroce::service {

struct Capacity {
  /// Ordinary users have parts of this. An object of any device counts, and the smallest device decides: so the part
  /// that is kept for root is there on each device.
  PerResource<uint64_t> shared;
  /// The sum over all devices, which is the limit of privileged users.
  PerResource<uint64_t> whole;
  uint64_t memory =
      UINT64_MAX;  ///< bytes that control groups allow the daemon, if they allow less than the machine has

  /// The daemon may use so much memory. Of the machine's, set before as registered_bytes, queues get a quarter at most.
  void set_memory(uint64_t bytes);
};

/// `max_clients`: connections of all users.
Capacity capacity_of(const std::vector<std::shared_ptr<control::Device>>& devices, uint32_t max_clients);

}  // namespace uroce::service
