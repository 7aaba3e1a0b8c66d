// The server's interface to the owner of the ports, for captures, counters and fault rules.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "message/operator_messages.h"
#include "message/protocol.h"

namespace uroce::service {

/// A running capture; it ends when this is destroyed.
class Capture {
 public:
  virtual ~Capture() = default;
  /// The shared memory (message/capture_ring.h).
  virtual int fd() const = 0;
  virtual uint32_t rings() const = 0;
  /// Wall-clock time of the records' time 0, ns since 1970.
  virtual uint64_t epoch_ns() const = 0;
};

/// Starts a capture of the device with a name. Any thread. Errors: ENODEV, EBUSY, ENOMEM, ETIMEDOUT.
using StartCapture = std::function<Result<std::unique_ptr<Capture>>(std::string_view device)>;

/// Counters of a device's port and of its address resolution, beside those of the engines. Any thread.
using PortCounters = std::function<std::vector<std::pair<std::string, uint64_t>>(std::string_view device)>;

/// The work of each engine so far. Any thread.
using EngineLoads = std::function<std::vector<message::EngineRow>()>;

/// The effect of fault rules on a program's call: it waits, and fails where `error` is not 0.
struct CallFault {
  std::chrono::nanoseconds delay{0};
  int error = 0;
  std::string text{};
};

/// The fault rules of all devices. Any thread.
class Faults {
 public:
  virtual ~Faults() = default;
  /// nullopt, at next to no cost, where no rule is for calls. `device`: its name, if the call is for one.
  virtual std::optional<CallFault> on_call(message::Op op, std::string_view device, std::string_view command,
                                           int32_t pid) = 0;
  virtual std::vector<message::FaultRow> list() const = 0;
  /// Errors: EINVAL, ENOSPC, ETIMEDOUT.
  virtual Result<message::AddedFaults> add(std::string_view rules, std::string_view source) = 0;
  /// `number` 0: all. Errors: ENOENT, ETIMEDOUT.
  virtual Result<void> clear(uint32_t number) = 0;
};

/// Each may be empty.
struct PortAccess {
  StartCapture capture{};
  PortCounters counters{};
  EngineLoads engines{};
  std::shared_ptr<Faults> faults{};
};

}  // namespace uroce::service
