// How many packets of a queue pair may be in flight, and whether they are paced.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Packets that may be in flight after a timeout. If the peer is merely slow, a whole window of duplicates at each
/// timeout would keep it busy until the retries are exhausted.
inline constexpr uint32_t kWindowAfterTimeout = 4;

/// Bits per second, headers and all: the lower of congestion control's rate and the application's limit; 0: not paced.
uint64_t pace_of(const Qp& qp);
/// Sets qp.tx.window to the least that the engine, timeouts, the peer and congestion control allow, and qp.paced to
/// whether there is a pace. RC only.
void update_window(const Context& ctx, Qp& qp);
/// Gives the QP the congestion control that it or the device asks for; before RTR. RC only.
void choose_congestion_control(const Context& ctx, Qp& qp);

}  // namespace uroce::transport
