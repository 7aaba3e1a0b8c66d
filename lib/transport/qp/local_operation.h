// Work requests that send nothing: binding memory windows, invalidating keys (IBTA vol. 1, 10.6.7, 11.4.1.1).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Does what a local work request asks for. Returns the status that it completes with.
WcStatus run_local(Context& ctx, const Qp& qp, const SendSlot& slot);
/// Completes local work requests that have run, up to the first other one. `any`: there were some.
struct LocalCompletions {
  bool any = false;
  Outcome out;
};
LocalCompletions complete_local(Context& ctx, Qp& qp);

}  // namespace uroce::transport
