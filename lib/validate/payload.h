// Whether the bytes that a request sends stay the same until it completes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "validate/buffers.h"

namespace uroce::validate {

enum class ReadResult : uint8_t { read, not_mapped, unknown };
/// Reads memory of this process without a signal where there is none.
using ReadMemory = ReadResult (*)(uint64_t address, std::span<std::byte> to);

/// The bytes of a request, and a number that tells them from others. Of each entry only the first and the last are
/// read, and of no more than a few entries.
class Payload {
 public:
  explicit Payload(std::vector<Bytes> parts) : parts_(std::move(parts)) {}
  /// Reads the bytes as they are now. `not_mapped` where some are gone.
  ReadResult read(ReadMemory reader);
  /// True where the bytes differ from those of the last read(), which succeeded. Bytes that cannot be read do not.
  bool changed(ReadMemory reader) const;

 private:
  static ReadResult number_of(std::span<const Bytes> parts, ReadMemory reader, uint64_t& number);

  std::vector<Bytes> parts_;
  std::optional<uint64_t> number_;
};

}  // namespace uroce::validate
