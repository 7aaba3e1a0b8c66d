// The shortcuts for the packets in the middle of long SENDs, WRITEs and READ responses, which are full, and alike but
// for their PSN, and for received ends of WRITEs. Other first and last packets go the general way. Of a WRITE as Onlies
// the first is like those in the middle.
//
// They are the general way (rc/requester.h, rc/execute.h, rc/response_receiver.h) without the branches that other
// packets need: the same checks, frames and state. None is inlined: a message of one packet needs fewer registers.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The requester's shortcut sends packets of one shape of `slot`, the message at the cursor, while room, window and
/// peer allow it. The last one is not among them. Returns how many.
uint32_t transmit_alike(Context& ctx, Qp& qp, const SendSlot& slot);

/// The responder's does what on_request() does, for a packet of a SEND or WRITE. The QP is in RTS, and not in hand yet.
template <Steps kSteps>
Outcome on_plain_middle(Context& ctx, Qp& qp, const wire::Packet& packet);
/// The same for the first packet of a WRITE, and for its last one without immediate data.
template <Steps kSteps>
Outcome on_plain_write_first(Context& ctx, Qp& qp, const wire::Packet& packet);
template <Steps kSteps>
Outcome on_plain_write_last(Context& ctx, Qp& qp, const wire::Packet& packet);

/// The requester's other one does what on_read_response() does. The QP is in RTS, and not in hand yet.
template <Steps kSteps>
Outcome on_plain_middle_response(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
