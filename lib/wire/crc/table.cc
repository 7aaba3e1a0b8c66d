// The kernel of every CPU: eight bytes at a time, by eight tables.
#include <algorithm>
#include <array>
#include <cstring>

#include "wire/crc/kernel.h"
#include "wire/crc/polynomial.h"

namespace uroce::wire::crc {
namespace {

/// tables[i][b]: the register after byte `b` and `i` zeros.
using Tables = std::array<std::array<uint32_t, 256>, 8>;

consteval Tables make_tables() {
  Tables tables{};
  for (std::size_t i = 0; i < tables.size(); ++i) tables[i] = registers_after(i);
  return tables;
}
constexpr Tables kTables = make_tables();

inline uint32_t add_byte(uint32_t crc, uint8_t byte) { return crc >> 8 ^ kTables[0][(crc ^ byte) & 0xff]; }

uint32_t update_eights(uint32_t crc, const std::byte* bytes, std::size_t n) {
  for (; n >= 8; bytes += 8, n -= 8) {
    uint64_t next;
    std::memcpy(&next, bytes, sizeof next);
    next ^= crc;
    crc = 0;
    for (unsigned i = 0; i < 8; ++i) crc ^= kTables[7 - i][next >> 8 * i & 0xff];
  }
  return update_bytes(crc, bytes, n);
}

/// Takes the CRC from a buffer of its own, because the source may change between two reads.
uint32_t copy_eights(uint32_t crc, std::byte* to, const std::byte* from, std::size_t n) {
  std::array<std::byte, 1024> once;
  while (n != 0) {
    const std::size_t piece = std::min(n, once.size());
    std::memcpy(once.data(), from, piece);
    asm volatile("" : : "r"(once.data()) : "memory");  // what was read is not read again
    std::memcpy(to, once.data(), piece);
    crc = update_eights(crc, once.data(), piece);
    from += piece;
    to += piece;
    n -= piece;
  }
  return crc;
}

uint32_t masked_eights(const HeadMask& mask, const std::byte* bytes, std::size_t n) {
  std::array<std::byte, 64> head;
  const std::size_t length = std::min(n, head.size());
  for (std::size_t i = 0; i < length; ++i) {
    const std::size_t at = HeadMask::kBefore + i;
    head[i] = (bytes[i] & std::byte{mask.keep[at]}) ^ std::byte{mask.flip[at]};
  }
  return update_eights(update_eights(0, head.data(), length), bytes + length, n - length);
}

}  // namespace

uint32_t update_bytes(uint32_t crc, const std::byte* bytes, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) crc = add_byte(crc, static_cast<uint8_t>(bytes[i]));
  return crc;
}

uint32_t copy_bytes(uint32_t crc, std::byte* to, const std::byte* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::byte byte = *static_cast<const volatile std::byte*>(from + i);
    to[i] = byte;
    crc = add_byte(crc, static_cast<uint8_t>(byte));
  }
  return crc;
}

constinit const Kernel kTableKernel = {"table", update_eights, copy_eights, masked_eights};

}  // namespace uroce::wire::crc
