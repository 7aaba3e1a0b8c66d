// The algorithms of congestion control by name.
#pragma once

#include <memory>

#include "transport/congestion/congestion_control.h"

namespace uroce::transport {

/// The state of a queue pair with packets of at most `packet_bytes`. Nullptr for none. `window`: the most packets that
/// it may ever have in flight.
std::unique_ptr<CongestionControl> make_congestion_control(CongestionAlgorithm algorithm,
                                                           const CongestionSettings& settings, uint32_t packet_bytes,
                                                           uint32_t window, Nanos now);

}  // namespace uroce::transport
