// A queue pair of a replayed engine, as text.
#pragma once

#include <cstdint>
#include <string>

#include "transport/engine/engine.h"
#include "wire/packet.h"

namespace uroce::record {

/// Does the packet that the engine gets (`in`) or sends belong to its queue pair `qpn`?
bool concerns(transport::Engine& engine, uint32_t qpn, const wire::Packet& packet, bool in);
/// The queue pair's state in a line.
std::string state_text(transport::Engine& engine, uint32_t qpn);

}  // namespace uroce::record
