// The AETH of what a responder sends.
#pragma once

#include "transport/qp/qp.h"
#include "transport/qp/receive_queue.h"

namespace uroce::transport {

/// An ACK carries the credits of now; anything else is stored as it is.
inline void store_aeth(std::byte* at, const Qp& qp, uint8_t syndrome, uint32_t msn) {
  const bool ack = wire::Aeth{syndrome, 0}.kind() == wire::AethKind::ack;
  wire::Aeth{ack ? wire::Aeth::ack(credits_now(qp)) : syndrome, msn}.store(at);
}

}  // namespace uroce::transport
