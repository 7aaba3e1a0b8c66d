// Applies a modify, and reads a queue pair's attributes (ibv_modify_qp(3), ibv_query_qp(3)).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"
#include "transport/qp/status.h"

namespace uroce::transport {

/// Applies attributes that state.h has checked, except the state and the route.
void apply_attributes(Context& ctx, Qp& qp, const QpAttr& attr, QpAttrMask mask);
/// Moves the QP to `state`.
Outcome apply_state(Context& ctx, Qp& qp, QpState state);
/// Current attributes as ibv_query_qp reports them.
QpAttr query_attributes(const Qp& qp);
/// The state of the QP's congestion control and loss recovery.
QpTransportStatus query_status(const Qp& qp, Nanos now);

}  // namespace uroce::transport
