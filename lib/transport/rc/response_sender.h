// READ response segmentation, and the order of a responder's packets: READ responses and atomic ACKs in the order of
// their requests, then the newest ACK or NAK (IBTA vol. 1, 9.7.5.1).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Sends queued responses, READs segmented into packets, then the reply. `more`: the burst is full, and some remain.
Transmitted transmit_responses(Context& ctx, Qp& qp);
/// Sends the reply, which is next (ResponseQueue::reply_is_next()). The builder has room.
void send_reply(Context& ctx, Qp& qp);

}  // namespace uroce::transport
