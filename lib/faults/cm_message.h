// Messages of the connection manager in frames: MADs of its class at queue pair 1 (IBTA vol. 1, 13.4.3 and 12.6).
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "wire/gsi.h"
#include "wire/packet.h"

namespace uroce::faults {

/// Bytes before the attribute ID of a MAD.
inline constexpr std::size_t kMadAttribute = 16;

/// The attribute ID, which tells the kind of message. nullopt: the packet has none.
inline std::optional<uint16_t> cm_attribute_of(const wire::Packet& packet) {
  constexpr std::byte kClass{7};
  if (packet.bth.dest_qpn != wire::kGsiQpn || packet.bth.opcode != wire::Opcode::ud_send_only) return std::nullopt;
  if (packet.payload.size() < kMadAttribute + 2 || packet.payload[1] != kClass) return std::nullopt;
  return load_be16(packet.payload.data() + kMadAttribute);
}

}  // namespace uroce::faults
