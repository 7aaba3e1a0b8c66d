// Ethernet addresses in frames.
#pragma once

#include <cstddef>
#include <cstring>

#include <uroce/types.h>

namespace uroce::wire {

inline EthAddr load_mac(const std::byte* p) {
  EthAddr mac;
  std::memcpy(mac.bytes.data(), p, mac.bytes.size());
  return mac;
}

}  // namespace uroce::wire
