// An engine's queue pairs as fault rules see and end them.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "control/device.h"
#include "pmd_glue/port_faults.h"
#include "transport/engine/engine.h"

namespace uroce::glue {

/// Engine's thread, but for the constructor.
class FaultedQps final : public EndingQps {
 public:
  /// `engine` is the device's. Both outlive it.
  FaultedQps(control::Device& device, transport::Engine& engine) : device_(device), engine_(engine) {}

  std::optional<uint32_t> sender_of(faults::Way way, const wire::Packet& packet) override;
  void end(uint32_t qpn, Nanos now) override;

 private:
  control::Device& device_;
  transport::Engine& engine_;
};

}  // namespace uroce::glue
