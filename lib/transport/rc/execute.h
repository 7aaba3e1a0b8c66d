// Executing one request whose turn it is: SEND, WRITE, READ, atomic (IBTA vol. 1, 9.7.4, 9.7.5, 9.8), FLUSH or
// ATOMIC WRITE (annex A19).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// `packet` has the PSN that is expected. Its ACK or NAK, or its response, is queued.
Outcome execute_request(Context& ctx, Qp& qp, const wire::Packet& packet);

// --- Shared with the shortcuts of READs and atomics ---------------------------------------------------------------

/// The response to `resource`, which the request that was just executed has filled.
inline void queue_response(Qp& qp, Resource& resource) {
  auto& rx = qp.rx;
  resource.msn = rx.count_message();
  resource.pd = qp.pd;
  qp.expect_next(resource.packets);
  qp.responses.queue_response(qp.cold->replay, resource);
}
/// Keeps a READ, whose memory has been checked, and queues its response of so many packets. False: the peer has more
/// outstanding than was agreed (9.7.4.1.7), and nothing has been done.
inline bool answer_read(Qp& qp, const wire::Packet& packet, uint32_t packets) {
  Resource* resource = qp.cold->replay.reuse();
  if (resource == nullptr) return false;
  const wire::Reth& reth = packet.reth;
  *resource = {.first_psn = packet.bth.psn,
               .packets = packets,
               .va = reth.va,
               .rkey = reth.rkey,
               .length = reth.length,
               .busy = true};
  queue_response(qp, *resource);
  return true;
}
/// The same for an atomic, which is run on `word`.
bool answer_atomic(const Context& ctx, Qp& qp, const wire::Packet& packet, std::byte* word);
/// Is memory aligned as an atomic needs it? Its address for the peer, which is checked apart, may differ.
inline bool is_atomic_word(const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % sizeof(uint64_t) == 0; }

}  // namespace uroce::transport
