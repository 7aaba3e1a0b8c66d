// Applying a modify and reading a queue pair's attributes (ibv_modify_qp(3), ibv_query_qp(3)).
#pragma once

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"
#include "transport/qp/status.h"

namespace uroce::transport {

/// Applies attributes that state.h has checked, but no state and no route.
void apply_attributes(Context& ctx, Qp& qp, const QpAttr& attr, QpAttrMask mask);
/// Moves the QP to `state`.
Outcome apply_state(Context& ctx, Qp& qp, QpState state);
/// Current attributes as ibv_query_qp reports them.
QpAttr query_attributes(const Qp& qp);
/// What the transport does for the QP now.
QpTransportStatus query_status(const Qp& qp, Nanos now);

}  // namespace uroce::transport
