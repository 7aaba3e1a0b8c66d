// Frames for the tests of an interface's queue.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace uroce::glue::kif {

using Bytes = std::vector<std::byte>;

/// A UDP datagram over IPv4 whose id is `id`, with a right checksum of its header.
inline Bytes datagram(uint16_t id, std::size_t payload_bytes) {
  Bytes out(42 + payload_bytes);
  std::byte* p = out.data();
  store_be16(p + 12, 0x0800);
  store_be16(p + 14, 0x4500);
  store_be16(p + 16, static_cast<uint16_t>(28 + payload_bytes));
  store_be16(p + 18, id);
  store_be16(p + 20, 0x4000);
  store_be16(p + 22, 0x4011);
  store_be32(p + 26, 0x0a000001);
  store_be32(p + 30, 0x0a000002);
  store_be16(p + 34, 0xc000);
  store_be16(p + 36, 4791);
  store_be16(p + 38, static_cast<uint16_t>(8 + payload_bytes));
  uint32_t sum = 0;
  for (std::size_t i = 14; i < 34; i += 2) sum += load_be16(p + i);
  sum = (sum & 0xffff) + (sum >> 16);
  store_be16(p + 24, static_cast<uint16_t>(~(sum + (sum >> 16))));
  for (std::size_t i = 0; i < payload_bytes; ++i) out[42 + i] = static_cast<std::byte>(id + i * 3);
  return out;
}

}  // namespace uroce::glue::kif
