// Repetitions and patience: messages are repeated until they are answered, and an MRA asks for more time.
#pragma once

#include "cm/ib/actions.h"
#include "cm/ib/connection.h"
#include "cm/ib/context.h"
#include "cm/ib/outcome.h"

namespace uroce::cm::repeating {

/// The connection's time is up: repeats its last message, gives up, or ends what rested.
CmOutcome on_timer(CmContext& ctx, CmConnection& c, CmActions& actions);
/// The peer repeats a message that the application has received but not answered: sends an MRA, so that the peer does
/// not time out. No effect if the application has not received it, or an MRA was sent already.
CmOutcome ask_for_time(CmContext& ctx, CmConnection& c, CmActions& actions);
/// The peer needs longer to answer our REQ (we do not know its id then) or REP. Granted once, so that the wait stays
/// bounded.
CmOutcome on_mra(CmContext& ctx, CmConnection& c, const MraMad& mra);

}  // namespace uroce::cm::repeating
