// Work requests that send no packet: binding memory windows, invalidating keys (IBTA vol. 1, 10.6.7, 11.4.1.1).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Runs a local work request. Returns its completion status.
WcStatus run_local(Context& ctx, const Qp& qp, const SendSlot& slot);
/// Completes the oldest work requests as long as they are local and have run successfully. `any`: there were some.
struct LocalCompletions {
  bool any = false;
  Outcome out;
};
LocalCompletions complete_local(Context& ctx, Qp& qp);

// --- When it runs, among the other work requests of its send queue (IBTA vol. 1, 10.8.3.3) ------------------------

/// May the local operation under the cursor run now? An invalidate waits until all requests before it are complete,
/// because they may use the key. A bind does not wait: it affects only the requests after it.
inline bool may_run_local(const Qp& qp, const SendSlot& slot) {
  return slot.opcode == WrOpcode::bind_mw || qp.tx.cursor.index() == qp.tx.oldest;
}

/// UC and UD: every local operation waits for the requests before it, which complete as soon as the sink takes their
/// frames.
inline bool may_run_local_unreliable(const Qp& qp) { return qp.tx.cursor.index() == qp.tx.oldest; }

}  // namespace uroce::transport
