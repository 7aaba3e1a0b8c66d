// The header that rdma_cm puts before the private data of a REQ or SIDR_REQ (IBTA vol. 1, annex A11): the connection's
// IP addresses and source port.
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
  uint16_t source_port = 0;  ///< the service id has the destination port
  Gid source{};              ///< IPv4 as ::ffff:a.b.c.d
  Gid destination{};

  /// nullopt when `private_data` is too short, has another header version, or is neither IPv4 nor IPv6.
  static std::optional<RdmaHeader> parse(std::span<const std::byte> private_data);
  /// Writes kBytes bytes.
  void store(std::byte* out) const;
};

/// The service id of rdma_cm: the port space (enum rdma_port_space) in the high bits, the port in the low 16 (annex
/// A11.2).
constexpr uint64_t rdma_service_id(uint16_t port_space, uint16_t port) { return uint64_t{port_space} << 16 | port; }

}  // namespace uroce::cm
