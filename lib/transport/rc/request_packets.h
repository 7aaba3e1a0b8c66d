// The packets of RC requests: SEND and WRITE data, READ requests, atomics (IBTA vol. 1, 9.4), FLUSH and
// ATOMIC WRITE (annex A19).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"
#include "transport/qp/segment.h"

namespace uroce::transport {

/// Longest READ that one request asks for: the PSNs outstanding must stay below half the PSN space (9.7.1).
inline constexpr uint32_t kMaxReadPackets = 1u << 22;

/// One packet of a SEND or WRITE. False: a key or bound is wrong, and the slot's status says so.
bool emit_data(Context& ctx, Qp& qp, SendSlot& slot, const Segment& segment, Psn psn, bool ack_request);
/// Asks for `packets` of a READ's response, from its packet `first` on.
void emit_read_request(Context& ctx, Qp& qp, SendSlot& slot, uint32_t first, uint32_t packets);
void emit_atomic(Context& ctx, Qp& qp, const SendSlot& slot);
/// FLUSH or ATOMIC WRITE.
void emit_placement(Context& ctx, Qp& qp, const SendSlot& slot);

}  // namespace uroce::transport
