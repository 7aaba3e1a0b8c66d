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

/// Keeps a READ, whose memory has been checked, and queues its response. False: the peer has more outstanding than was
/// agreed (9.7.4.1.7), and nothing has been done.
bool answer_read(Qp& qp, const wire::Packet& packet);
/// The same for an atomic, which is run on `word`.
bool answer_atomic(Qp& qp, const wire::Packet& packet, std::byte* word);
/// Is memory aligned as an atomic needs it? Its address for the peer, which is checked apart, may differ.
inline bool is_atomic_word(const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % sizeof(uint64_t) == 0; }

}  // namespace uroce::transport
