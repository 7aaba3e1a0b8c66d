// I/O commands, checked against a namespace: pure functions of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <span>

#include "nvmf/backend.h"
#include "nvmf/nvme.h"
#include "nvmf/subsystem.h"

namespace uroce::nvmf {

/// An I/O command as its namespace's backend takes it. For Dataset Management, `ranges` tells how many ranges its data
/// has; offset and length are then those of one range.
struct IoPlan {
  const Namespace* target = nullptr;
  Io::Op op = Io::Op::flush;
  bool force_unit_access = false;
  uint64_t offset = 0, length = 0;  ///< bytes, inside the namespace
  uint32_t data_bytes = 0;          ///< bytes that move between host and target
  uint32_t ranges = 0;
};

/// Errors: invalid_namespace, invalid_opcode, lba_out_of_range, invalid_field (a transfer above MDTS).
std::expected<IoPlan, nvme::Status> plan_io(const nvme::Command& command, const Subsystem& subsystem);

/// True when all ranges of a Dataset Management command are inside the namespace.
bool ranges_fit(std::span<const std::byte> data, const Namespace& target);
/// Sets the plan's offset and length to range `index`.
void take_range(std::span<const std::byte> data, uint32_t index, IoPlan& plan);

}  // namespace uroce::nvmf
