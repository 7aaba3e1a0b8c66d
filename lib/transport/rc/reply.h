// Queues an ACK or NAK (qp/ack_coalescing.h).
#pragma once

#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Queues an ACK or NAK for `psn`, to be sent after the responses queued so far. Only the newest one is kept.
inline Outcome queue_reply(Qp& qp, Psn psn, uint8_t syndrome) {
  return Outcome::wake_if(qp.rx.reply.queue(psn, syndrome));
}
inline Outcome queue_ack(Qp& qp, Psn psn) { return queue_reply(qp, psn, wire::Aeth::ack(0)); }

}  // namespace uroce::transport
