// How many packets of a queue pair may be in flight, and whether they are paced.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Packets that may be in flight after a timeout. The peer may just be slow, and then each packet that is sent again
/// makes it slower: a whole window at each timeout would keep it busy with duplicates until the retries are used up.
inline constexpr uint32_t kWindowAfterTimeout = 4;

/// Applies to qp.tx.window what the engine, timeouts, the peer and congestion control allow, and to qp.paced whether
/// congestion control has a rate. RC only.
void update_window(const Context& ctx, Qp& qp);
/// Gives the QP the congestion control that it or the device asks for; before RTR. RC only.
void choose_congestion_control(const Context& ctx, Qp& qp);

}  // namespace uroce::transport
