// The engine of a queue pair.
#pragma once

#include <cstdint>

#include "control/device.h"

namespace uroce::control {

/// The low bits of a QPN name its engine. It may be one that the device does not have.
inline uint32_t engine_of(const Device& device, uint32_t qpn) { return qpn & ((1u << device.index_bits()) - 1); }

}  // namespace uroce::control
