// Places the responses to READs and atomics in the memory of their requests (IBTA vol. 1, 9.7.5.1.4, 10.7.2.3).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Places a response. Any result but success is an error of the QP.
WcStatus place_response(Context& ctx, Qp& qp, const SendSlot& slot, const wire::Packet& packet);
/// Places the buffered responses to `slot`, now the oldest request.
WcStatus place_buffered(Context& ctx, Qp& qp, const SendSlot& slot);

}  // namespace uroce::transport
