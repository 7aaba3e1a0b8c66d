// Changes of a frame's bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "faults/rule.h"
#include "wire/packet.h"

namespace uroce::faults {

/// Changes one bit of the rule's part of the frame, whose views `packet` has. `draw` chooses the bit, and the byte
/// where the rule does not. False, with nothing changed, where the frame has no such byte.
bool corrupt(const Rule& rule, const wire::Packet& packet, std::span<std::byte> frame, uint64_t draw);
/// Sets ECN to congestion experienced (RFC 3168), and the IPv4 header's checksum. The ICRC does not cover either.
void mark_ecn(const wire::Packet& packet, std::span<std::byte> frame);

}  // namespace uroce::faults
