// The AETH of a responder's packets.
#pragma once

#include "transport/qp/qp.h"
#include "transport/qp/receive_queue.h"

namespace uroce::transport {

/// Stores an AETH. An ACK gets the present credits; NAKs and RNR NAKs are stored as they are.
inline void store_aeth(std::byte* at, const Qp& qp, uint8_t syndrome, uint32_t msn) {
  const bool ack = wire::Aeth{syndrome, 0}.kind() == wire::AethKind::ack;
  wire::Aeth{ack ? wire::Aeth::ack(credits_now(qp)) : syndrome, msn}.store(at);
}

}  // namespace uroce::transport
