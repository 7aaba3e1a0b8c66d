// When memory windows are bound and keys invalidated, among the other work requests of a send queue
// (IBTA vol. 1, 10.8.3.3).
#pragma once

#include "transport/qp/qp.h"

namespace uroce::transport {

/// May the local operation under the cursor run now? What is invalidated may be in use by requests posted before it, so
/// they must be complete. A bind concerns only what follows it.
inline bool may_run_local(const Qp& qp, const SendSlot& slot) {
  return slot.opcode == WrOpcode::bind_mw || qp.tx.cursor.index() == qp.tx.oldest;
}

/// UC and UD: requests complete as the sink takes their frames, so every local operation waits for those before it.
inline bool may_run_local_unreliable(const Qp& qp) { return qp.tx.cursor.index() == qp.tx.oldest; }

}  // namespace uroce::transport
