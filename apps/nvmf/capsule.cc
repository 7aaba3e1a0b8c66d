#include "nvmf/capsule.h"

#include <cstring>

#include "base/bytes.h"

namespace uroce::nvmf {

namespace {

uint64_t load_le64(const std::byte* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

std::expected<Transfer, nvme::Status> in_capsule_transfer(const nvme::Command& command, const std::byte* sgl,
                                                          std::size_t in_capsule) {
  const uint64_t offset = load_le64(sgl);
  const uint32_t length = load_le32(sgl + 8);
  if (direction_of(command) != Direction::from_host) return std::unexpected(nvme::Status::sgl_type_invalid);
  if (offset > in_capsule) return std::unexpected(nvme::Status::sgl_offset_invalid);
  if (length > in_capsule - offset) return std::unexpected(nvme::Status::sgl_length_invalid);
  return Transfer{.kind = Transfer::Kind::in_capsule, .length = length, .address = offset};
}

}  // namespace

Direction direction_of(const nvme::Command& command) {
  const uint8_t code = command.opcode == nvme::kFabrics ? command.fabrics_type() : command.opcode;
  return static_cast<Direction>(code & 3);
}

std::optional<nvme::Command> command_of(std::span<const std::byte> capsule) {
  nvme::Command command;
  if (capsule.size() < sizeof command) return std::nullopt;
  std::memcpy(&command, capsule.data(), sizeof command);
  return command;
}

std::expected<Transfer, nvme::Status> transfer_of(const nvme::Command& command, std::size_t in_capsule) {
  // NVMe-oF 1.1, 2.1: every command uses SGLs, with or without data.
  if ((command.flags & nvme::kPsdtMask) != nvme::kPsdtSgl || (command.flags & nvme::kFuseMask) != 0) {
    return std::unexpected(nvme::Status::invalid_field);
  }
  const auto* sgl = reinterpret_cast<const std::byte*>(command.sgl.data());
  switch (const uint8_t type = command.sgl[15]; type) {
    case nvme::kSglOffset: return in_capsule_transfer(command, sgl, in_capsule);
    case nvme::kSglKeyed:
    case nvme::kSglKeyedInvalidate:
      // A keyed descriptor of 0 bytes is the usual one of a command without data.
      return Transfer{.kind = Transfer::Kind::keyed,
                      .invalidate = type == nvme::kSglKeyedInvalidate,
                      .length = load_le32(sgl + 8) & 0xffffff,
                      .key = load_le32(sgl + 11),
                      .address = load_le64(sgl)};
    case 0:  // A data block descriptor of no bytes: some hosts leave the field zero where there is no data.
      if (load_le32(sgl + 8) == 0) return Transfer{};
      [[fallthrough]];
    default: return std::unexpected(nvme::Status::sgl_type_invalid);
  }
}

}  // namespace uroce::nvmf
