// The contents of GUIDs and GIDs.
#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace uroce::run {

/// The MAC address in a GUID (EUI-64, RFC 4291 appendix A).
inline std::array<uint8_t, 6> mac_of(uint64_t guid) {
  const auto byte = [guid](int at) { return static_cast<uint8_t>(guid >> (56 - 8 * at)); };
  return {static_cast<uint8_t>(byte(0) ^ 2), byte(1), byte(2), byte(5), byte(6), byte(7)};
}

inline bool is_empty(const ibv_gid& gid) { return gid.global.subnet_prefix == 0 && gid.global.interface_id == 0; }

/// ::ffff:a.b.c.d
inline bool is_ipv4(const ibv_gid& gid) {
  return std::all_of(gid.raw, gid.raw + 10, [](uint8_t b) { return b == 0; }) && gid.raw[10] == 0xff &&
         gid.raw[11] == 0xff;
}

}  // namespace uroce::run
