// The shortcuts for plain READs and atomics: those of one packet and one entry in memory, without fence.
//
// They are the general way (rc/requester.h, rc/responder.h, rc/response_receiver.h) without the branches that other
// requests need: the same checks, frames and state. None is inlined: a WRITE needs fewer registers.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// The result of sending READs and atomics. `waits`: the next one is plain, and waits for the response to one before
/// it. It stays in shared memory until then.
struct PlainReads {
  bool waits = false;
  Outcome out;
};
/// The requester's shortcut does what transmit_plain_requests() does.
PlainReads transmit_plain_reads(Context& ctx, Qp& qp);

/// The responder's does what on_request() does, for a plain READ or atomic. The QP is in RTS and in hand.
Outcome on_plain_read(Context& ctx, Qp& qp, const wire::Packet& packet);

/// The requester's other one does what on_read_response() or on_atomic_ack() does, for a response of one packet. The QP
/// is in RTS, and not in hand yet.
template <Steps kSteps>
Outcome on_plain_response(Context& ctx, Qp& qp, const wire::Packet& packet);

}  // namespace uroce::transport
