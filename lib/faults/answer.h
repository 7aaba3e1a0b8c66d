// Frames in the name of the one whom a frame was for: they go the other way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "faults/rule.h"
#include "wire/packet.h"

namespace uroce::faults {

/// Whether there is such an answer to the frame: NAKs to requests of reliable connections, a REJ to a REQ.
bool has_answer(const Rule& rule, const wire::Packet& packet);
/// Writes the answer to `out`, with its ICRC, and returns its length; 0 where it does not fit. `asker`: the queue pair
/// that gets it.
std::size_t write_answer(const Rule& rule, const wire::Packet& packet, uint32_t asker, std::span<std::byte> out);

}  // namespace uroce::faults
