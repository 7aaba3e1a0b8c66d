#include "nvmf/kept_features.h"

namespace uroce::nvmf {

using nvme::Status;

namespace {

constexpr auto kInvalid = std::unexpected(Status::invalid_field);
constexpr uint32_t kComposite = 0, kEverySensor = 15;  // TMPSEL
constexpr uint32_t kOver = 0, kUnder = 1;              // THSEL

uint32_t sensor_of(uint32_t cdw11) { return cdw11 >> 16 & 15; }
uint32_t threshold_of(uint32_t cdw11) { return cdw11 >> 20 & 3; }

}  // namespace

std::expected<uint32_t, Status> KeptFeatures::get(const nvme::Command& command) const {
  switch (static_cast<uint8_t>(command.cdw10)) {
    case nvme::kArbitration: return arbitration_;
    case nvme::kPowerManagement: return 0;
    case nvme::kTemperatureThreshold: {
      const uint32_t which = threshold_of(command.cdw11);
      if (sensor_of(command.cdw11) != kComposite || which > kUnder) return kInvalid;
      return which == kOver ? too_warm_ : too_cold_;
    }
    case nvme::kErrorRecovery: return error_recovery_;
    case nvme::kWriteAtomicity: return write_atomicity_;
    default: return kInvalid;
  }
}

std::expected<void, Status> KeptFeatures::set(const nvme::Command& command) {
  const uint32_t value = command.cdw11;
  switch (static_cast<uint8_t>(command.cdw10)) {
    case nvme::kArbitration: arbitration_ = value; return {};
    case nvme::kPowerManagement:
      // There is power state 0 alone.
      if ((value & 31) != 0) return kInvalid;
      return {};
    case nvme::kTemperatureThreshold: {
      const uint32_t sensor = sensor_of(value), which = threshold_of(value);
      if ((sensor != kComposite && sensor != kEverySensor) || which > kUnder) return kInvalid;
      (which == kOver ? too_warm_ : too_cold_) = static_cast<uint16_t>(value);
      return {};
    }
    case nvme::kErrorRecovery:
      // DULBE: reads of deallocated blocks do not fail (NSFEAT).
      if ((value >> 16) != 0) return kInvalid;
      error_recovery_ = value;
      return {};
    case nvme::kWriteAtomicity: write_atomicity_ = value & 1; return {};
    default: return kInvalid;
  }
}

}  // namespace uroce::nvmf
