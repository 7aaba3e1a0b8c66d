#include "validate/payload.h"

#include <algorithm>
#include <array>

namespace uroce::validate {

namespace {

constexpr std::size_t kPieceBytes = 2048;
constexpr std::size_t kMostParts = 8;

/// FNV-1a, 64 bits.
void add_to(uint64_t& number, std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    number ^= static_cast<uint64_t>(byte);
    number *= 0x100000001b3;
  }
}

}  // namespace

ReadResult Payload::number_of(std::span<const Bytes> parts, ReadMemory reader, uint64_t& number) {
  number = 0xcbf29ce484222325;
  for (const Bytes& part : parts.first(std::min(parts.size(), kMostParts))) {
    const auto length = static_cast<std::size_t>(std::min<uint64_t>(part.end - part.first, kPieceBytes));
    std::array<std::byte, kPieceBytes> piece;
    const auto bytes = std::span(piece).first(length);
    for (const uint64_t from : {part.first, part.end - length}) {
      const ReadResult result = reader(from, bytes);
      if (result != ReadResult::read) return result;
      add_to(number, bytes);
      if (part.end - part.first == length) break;
    }
  }
  return ReadResult::read;
}

ReadResult Payload::read(ReadMemory reader) {
  uint64_t number = 0;
  const ReadResult result = number_of(parts_, reader, number);
  number_ = result == ReadResult::read ? std::optional(number) : std::nullopt;
  return result;
}

bool Payload::changed(ReadMemory reader) const {
  uint64_t number = 0;
  return number_ && number_of(parts_, reader, number) == ReadResult::read && number != *number_;
}

}  // namespace uroce::validate
