// Command capsules: a pure function of the received bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>

#include "nvmf/nvme.h"

namespace uroce::nvmf {

/// The data of a command, as its SGL descriptor says. `length` is what the descriptor claims; nothing has compared it
/// with the command yet.
struct Transfer {
  enum class Kind : uint8_t { none, in_capsule, keyed };
  Kind kind = Kind::none;
  bool invalidate = false;  ///< keyed: the response is a SEND with invalidate of `key`
  uint32_t length = 0;      ///< bytes
  uint32_t key = 0;         ///< keyed: the host's rkey
  uint64_t address = 0;     ///< keyed: the host's address; in the capsule: the offset behind the submission queue entry
};

/// True where the opcode's low bits say that data goes this way (NVMe 1.4, 4.2: data transfer).
enum class Direction : uint8_t { none, from_host, to_host, both };
Direction direction_of(const nvme::Command& command);

/// The submission queue entry of a capsule of `bytes`; nullopt when it is too short to have one, and so has no command
/// identifier that a response could name.
std::optional<nvme::Command> command_of(std::span<const std::byte> capsule);

/// The command's data descriptor. `in_capsule` is the number of bytes that came behind the submission queue entry.
/// Refused: fused commands, PRPs, a descriptor type that this binding lacks, data in the capsule beyond its end or for
/// a command that returns data.
std::expected<Transfer, nvme::Status> transfer_of(const nvme::Command& command, std::size_t in_capsule);

}  // namespace uroce::nvmf
