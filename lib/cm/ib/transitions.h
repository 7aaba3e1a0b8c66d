// Changes of a connection that several parts make: it sends, waits for an answer, or ends.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "cm/ib/actions.h"
#include "cm/ib/connection.h"
#include "cm/ib/context.h"
#include "cm/ib/outcome.h"

namespace uroce::cm {

/// The time that the peer's answer takes on the path at most.
Nanos round_trip(const CmConnection& c);
/// Sends `c.last`.
inline void send_last(const CmConnection& c, CmActions& actions) { actions.add<OutgoingMad>(c.path(), *c.last); }
/// An event, for the caller to fill in; nullptr: the connection has no owner.
CmMessage* tell(const CmConnection& c, CmEventKind kind, CmActions& actions);
/// The peer did not get our last message, or has not answered it.
CmOutcome send_again(CmContext& ctx, const CmConnection& c, CmActions& actions);
/// Repeats `c.last` until it is answered. The interval is the peer's `timeout` (a code) and a round trip on the path.
CmOutcome repeat_until_answered(CmConnection& c, uint8_t timeout);
/// Packets of the connection may still be in the network. Its ids and the peer's queue pair number stay in use for the
/// lifetime of a packet (12.9.8.4).
CmOutcome enter_timewait(CmConnection& c);
/// Only the id remains, until destroy().
CmOutcome close(CmConnection& c);
/// Closes the connection, but keeps `c.last` for `time` to answer the peer's repetitions. The peer may use its queue
/// pair for another attempt.
CmOutcome keep_answer(CmConnection& c, Nanos time);

}  // namespace uroce::cm
