// The counters of a device in the kernel's names: /sys/class/infiniband/*/ports/1/counters and hw_counters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace uroce::nldev {

using Counters = std::vector<std::pair<std::string, uint64_t>>;

/// The port's counters of the InfiniBand specification, as the kernel names them (IBTA 16.1.3.5). A counter that uroce
/// does not count is left out. `device`: the daemon's counters of one device.
Counters port_counters(const Counters& device);

/// Those that drivers add. Names are rxe's, then mlx5's for the rest; where both count the same, each name is there.
Counters hardware_counters(const Counters& device);

}  // namespace uroce::nldev
