// An address handle: a datagram's destination, resolved to headers once and named by a number in each work request.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "control/region.h"
#include "transport/datagram/address_handles.h"

namespace uroce::control {

class AddressHandle {
 public:
  AddressHandle(std::shared_ptr<Pd> pd, transport::AddressHandleId id) : pd_(std::move(pd)), id_(id) {}
  /// The number in SendWqe::ud.ah. Never 0.
  transport::AddressHandleId id() const { return id_; }
  const std::shared_ptr<Pd>& pd() const { return pd_; }
  /// With its present Ethernet address; nullopt while it is being destroyed. Any thread.
  std::optional<transport::AddressHandle> destination() const;

  /// Deleter: the number stops working at once. Does not wait: the slot is used again when no engine can be reading it.
  static void destroy(AddressHandle* handle);

 private:
  std::shared_ptr<Pd> pd_;
  transport::AddressHandleId id_;
};

}  // namespace uroce::control
