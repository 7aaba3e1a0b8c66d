// Congestion notification packets, both ways (IBTA annex A17.9).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// A marked data packet has arrived: a CNP may be due.
Outcome on_mark(Context& ctx, Qp& qp);
/// A CNP has arrived: this side slows down.
void on_cnp(Context& ctx, Qp& qp);
void send_cnp(Context& ctx, Qp& qp);

}  // namespace uroce::transport
