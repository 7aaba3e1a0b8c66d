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

}  // namespace uroce::transport
