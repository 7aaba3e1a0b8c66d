// Raw packet queue pairs: a send is a whole Ethernet frame, and so is a receive (IBTA has no such service;
// ibv_create_qp(3), IBV_QPT_RAW_PACKET).
#pragma once

#include <cstddef>
#include <span>

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Builds the frame of `slot`. False: slot.status tells why it is refused.
bool send_raw_frame(Context& ctx, Qp& qp, SendSlot& slot);
/// A rule gives `frame` to this QP.
Outcome on_raw_frame(Context& ctx, Qp& qp, std::span<const std::byte> frame, uint32_t tag);

}  // namespace uroce::transport
