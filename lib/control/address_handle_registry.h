// The address handles of a device. Engines look them up without a lock, so the slot of a destroyed handle is reused
// only after every engine was between two bursts.
#pragma once

#include <string>
#include <vector>

#include <uroce/error.h>

#include "control/engine_runner.h"
#include "transport/datagram/address_handles.h"

namespace uroce::control {

/// Callers hold the control lock.
class AddressHandleRegistry {
 public:
  /// `device`: its name, for messages.
  explicit AddressHandleRegistry(std::string device) : device_(std::move(device)) {}

  /// Errors: ENOMEM (max_ah).
  Result<transport::AddressHandleId> add(const transport::AddressHandle& handle, EngineRunner& runner);
  /// The number stops working at once.
  void remove(transport::AddressHandleId id, EngineRunner& runner);

  /// For the engines, and for changes of a next hop.
  transport::AddressHandleTable& table() { return table_; }

 private:
  /// Makes removed slots reusable, if every engine replies.
  void retire(EngineRunner& runner);

  std::string device_;
  transport::AddressHandleTable table_;
  std::vector<transport::AddressHandleId> unretired_;
};

}  // namespace uroce::control
