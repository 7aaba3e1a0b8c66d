// Counters for operators: /uroce/counters on DPDK's telemetry socket (dpdk-telemetry.py).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace uroce::glue {

using CounterList = std::vector<std::pair<std::string, uint64_t>>;

/// While it lives, the command answers with the result of `read`: counters by device name. One per process.
class Telemetry {
 public:
  using Read = std::function<std::vector<std::pair<std::string, CounterList>>()>;

  /// EAL must have started. The telemetry thread calls `read`.
  explicit Telemetry(Read read);
  ~Telemetry();
  Telemetry(const Telemetry&) = delete;
  Telemetry& operator=(const Telemetry&) = delete;
};

}  // namespace uroce::glue
