// The header that rdma_cm puts in front of the private data of a REQ or SIDR_REQ (IBTA vol. 1, annex A11): which IP
// addresses and ports the connection is between.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include <uroce/types.h>

namespace uroce::cm {

struct RdmaHeader {
  static constexpr std::size_t kBytes = 36;
  uint8_t ip_version = 4;    ///< 4 or 6
  uint16_t source_port = 0;  ///< the destination's is in the service id
  Gid source{};              ///< IPv4 as ::ffff:a.b.c.d
  Gid destination{};

  /// nullopt where `private_data` is too short, of another version of this header, or neither IPv4 nor IPv6.
  static std::optional<RdmaHeader> parse(std::span<const std::byte> private_data);
  /// Writes kBytes bytes.
  void store(std::byte* out) const;
};

/// Service ids of rdma_cm: the port space (enum rdma_port_space) above the port (annex A11.2).
constexpr uint64_t rdma_service_id(uint16_t port_space, uint16_t port) { return uint64_t{port_space} << 16 | port; }

}  // namespace uroce::cm
