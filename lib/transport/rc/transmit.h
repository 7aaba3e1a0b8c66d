// One turn of an RC queue pair in a burst: control frames, responses, requests.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Sends until the burst is full or the QP may send no more. The outcome wakes the QP when it could send more.
Outcome transmit_rc(Context& ctx, Qp& qp);

}  // namespace uroce::transport
