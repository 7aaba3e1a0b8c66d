// Fault rules that keep completions, or their events, from programs for a while.
#pragma once

#include <memory>
#include <vector>

#include <uroce/error.h>

#include "base/time.h"
#include "control/completion_faults.h"
#include "control/device.h"
#include "faults/rule_set.h"

namespace uroce::glue {

/// The rules of one device.
class DeviceCompletions final : public control::CompletionRules {
 public:
  explicit DeviceCompletions(std::shared_ptr<control::Device> device) : device_(std::move(device)) {}
  ~DeviceCompletions() { (void)set({}); }
  DeviceCompletions(const DeviceCompletions&) = delete;
  DeviceCompletions& operator=(const DeviceCompletions&) = delete;

  const control::Device& device() const { return *device_; }
  /// Those of `all` that are for completions of the device. Errors: those of control::hold_completions().
  Result<void> set(const faults::Rules& all);
  /// Gives programs what is due, and returns when it wants to be called again.
  Nanos take_turn(Nanos now);
  control::CompletionFate fate_of(uint32_t cq, Nanos now) override;

 private:
  std::shared_ptr<control::Device> device_;
  faults::Rules rules_;  // guarded by the control lock
};

/// Those of all devices. One thread at a time.
class FaultCompletions {
 public:
  /// A device that is there already is not added again.
  void add(const std::shared_ptr<control::Device>& device);
  Result<void> set(const faults::Rules& all);
  Nanos take_turn(Nanos now);

 private:
  std::vector<std::unique_ptr<DeviceCompletions>> devices_;
};

}  // namespace uroce::glue
