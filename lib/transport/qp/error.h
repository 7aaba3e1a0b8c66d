// How a queue pair stops: errors, the flush that follows, the end of its connection (IBTA vol. 1, 10.3.1, 10.8).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Moves the QP to the error state that `why.failure()` names, with its completions and events. Only the
/// engine's dispatcher calls it. Returns the actions that are left to do.
Outcome stop_qp(Context& ctx, Qp& qp, const Outcome& why);
/// The result of a piece of a flush. `more`: something may be left.
struct Flushed {
  bool more = false;
  uint32_t work_requests = 0;
  Outcome out;
};
/// Flushes at most `most` of the work requests that have been posted to a QP in error or SQE, sends first.
Flushed flush_posted(Context& ctx, Qp& qp, uint32_t most);
/// A QP that was just made goes on where the application sees that another engine stopped using its rings. Only
/// stop_qp() may follow: nothing else is known of it. The receive that it held of a shared queue is flushed.
void resume_from_rings(Context& ctx, Qp& qp);
/// Forgets the connection's peer and every frame that waits in a reorder buffer. In ERROR, before RESET and at the end.
Outcome end_connection(Context& ctx, Qp& qp);

}  // namespace uroce::transport
