// The data structures of Identify and of the log pages that say little about a disk in software.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nvmf/nvme.h"
#include "nvmf/subsystem.h"

namespace uroce::nvmf {

nvme::IdentifyController identify_controller(const Subsystem& subsystem, uint16_t controller_id);
nvme::IdentifyNamespace identify_namespace(const Namespace& one);
/// Active namespace identifiers above `after`, ascending; the rest of the page is 0.
void identify_active_list(const Subsystem& subsystem, uint32_t after, std::span<std::byte, nvme::kPageBytes> out);
void identify_descriptors(const Namespace& one, std::span<std::byte, nvme::kPageBytes> out);
nvme::HealthLog health_log();
nvme::FirmwareLog firmware_log();

/// Copies text into a field of the wire, padded with `pad`.
void put_text(std::span<char> field, std::string_view text, char pad);

}  // namespace uroce::nvmf
