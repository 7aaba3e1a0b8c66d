// How much of each resource there is: what the devices, the process and the machine allow.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "control/device.h"
#include "service/resource.h"

namespace uroce::service {

/// `max_clients`: connections of all users. Objects count for all devices together, and the smallest device decides.
PerResource<uint64_t> capacity_of(const std::vector<std::shared_ptr<control::Device>>& devices, uint32_t max_clients);

}  // namespace uroce::service
