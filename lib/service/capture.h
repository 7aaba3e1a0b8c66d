// What the server needs of whoever owns the ports, to let an operator capture frames and read counters.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <uroce/error.h>

namespace uroce::service {

/// Runs until it goes.
class Capture {
 public:
  virtual ~Capture() = default;
  /// The shared memory (message/capture_ring.h).
  virtual int fd() const = 0;
  virtual uint32_t rings() const = 0;
  /// Wall-clock time of the records' time 0, ns since 1970.
  virtual uint64_t epoch_ns() const = 0;
};

/// Starts one on a device, by name. Any thread. Errors: ENODEV, EBUSY, ENOMEM, ETIMEDOUT.
using StartCapture = std::function<Result<std::unique_ptr<Capture>>(std::string_view device)>;

/// Of a device, by name, what its port and its neighbourhood count beside its engines. Any thread.
using PortCounters = std::function<std::vector<std::pair<std::string, uint64_t>>(std::string_view device)>;

/// Each may be empty.
struct PortAccess {
  StartCapture capture{};
  PortCounters counters{};
};

}  // namespace uroce::service
