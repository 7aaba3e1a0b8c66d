// The completer: completes requests that the peer has executed, in order (IBTA vol. 1, 9.7.5 and 10.8).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

struct Advance {
  bool moved = false;  ///< una has moved, a request has completed, or placing a response has failed
  Outcome out;
};
/// Advances una past everything acknowledged and completes those requests. A SEND or WRITE needs an ACK, a READ or
/// atomic every packet of its response.
Advance advance(Context& ctx, Qp& qp);
/// After una has moved from `before`: restarts timers, refills retries, opens the window.
Outcome on_progress(Context& ctx, Qp& qp, Psn before);
/// The peer has executed everything before `end`.
Outcome acknowledge_until(Context& ctx, Qp& qp, Psn end);

}  // namespace uroce::transport
