// Big-endian loads and stores at byte offsets. Addresses may be unaligned. The caller checks the bounds.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace uroce {

static_assert(std::endian::native == std::endian::little, "uroce runs on little-endian hosts");

inline uint8_t load8(const std::byte* p) { return static_cast<uint8_t>(*p); }
inline uint16_t load_be16(const std::byte* p) {
  uint16_t v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap16(v);
}
inline uint32_t load_be32(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap32(v);
}
inline uint64_t load_be64(const std::byte* p) {
  uint64_t v;
  std::memcpy(&v, p, sizeof v);
  return __builtin_bswap64(v);
}
inline uint32_t load_be24(const std::byte* p) { return uint32_t{load8(p)} << 16 | load_be16(p + 1); }

inline void store8(std::byte* p, uint8_t v) { *p = static_cast<std::byte>(v); }
inline void store_be16(std::byte* p, uint16_t v) {
  v = __builtin_bswap16(v);
  std::memcpy(p, &v, sizeof v);
}
inline void store_be32(std::byte* p, uint32_t v) {
  v = __builtin_bswap32(v);
  std::memcpy(p, &v, sizeof v);
}
inline void store_be64(std::byte* p, uint64_t v) {
  v = __builtin_bswap64(v);
  std::memcpy(p, &v, sizeof v);
}
inline void store_be24(std::byte* p, uint32_t v) {
  store8(p, static_cast<uint8_t>(v >> 16));
  store_be16(p + 1, static_cast<uint16_t>(v));
}
inline void store_le32(std::byte* p, uint32_t v) { std::memcpy(p, &v, sizeof v); }
inline uint32_t load_le32(const std::byte* p) {
  uint32_t v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

}  // namespace uroce
