// When memory windows are bound and keys invalidated, among the other work requests of a send queue
// (IBTA vol. 1, 10.8.3.3).
#pragma once

#include "transport/qp/qp.h"

namespace uroce::transport {

/// May the local operation under the cursor run now? An invalidate waits until all requests before it are complete,
/// because they may use the key. A bind does not wait: it affects only the requests after it.
inline bool may_run_local(const Qp& qp, const SendSlot& slot) {
  return slot.opcode == WrOpcode::bind_mw || qp.tx.cursor.index() == qp.tx.oldest;
}

/// UC and UD: every local operation waits for the requests before it, which complete as soon as the sink takes their
/// frames.
inline bool may_run_local_unreliable(const Qp& qp) { return qp.tx.cursor.index() == qp.tx.oldest; }

}  // namespace uroce::transport
