// Whether a rule chooses a frame, before counts and chances.
#pragma once

#include "faults/held_frames.h"
#include "faults/rule.h"
#include "wire/packet.h"

namespace uroce::faults {

/// A frame from the device to itself is both sent and received.
bool chooses(const Rule& rule, Way way, const wire::Packet& packet);

}  // namespace uroce::faults
