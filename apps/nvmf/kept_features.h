// Features that NVMe 1.4 (5.21.1) wants of every I/O controller, and that change nothing about a disk in software. They
// are kept, and told again.
#pragma once

#include <cstdint>
#include <expected>

#include "nvmf/nvme.h"

namespace uroce::nvmf {

/// One thread. A new value has the defaults.
class KeptFeatures {
 public:
  /// CDW0 of the answer. Errors: invalid_field (another feature, or a sensor that there is not).
  std::expected<uint32_t, nvme::Status> get(const nvme::Command& command) const;
  /// Errors: those of get(); invalid_field (a value that the controller cannot have).
  std::expected<void, nvme::Status> set(const nvme::Command& command);

 private:
  uint32_t arbitration_ = 7;  ///< no limit of a burst
  uint16_t too_warm_ = nvme::kWarningKelvin;
  uint16_t too_cold_ = 0;
  uint32_t error_recovery_ = 0;  ///< no limit of time
  uint32_t write_atomicity_ = 0;
};

}  // namespace uroce::nvmf
