// Queue pairs through the operation tables (ibv_create_qp_ex(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

/// Of ibv_create_qp_ex(), for all but XRC targets and RSS queue pairs.
ibv_qp* create_posting_qp(ibv_qp_init_attr_ex* attr, std::span<const QueuePair::Step> steps = {});
int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr);

/// Completes `qp`, a queue pair just made, and lets events find it. Returns it.
VerbsQp* publish_qp(VerbsQp* qp, ibv_context* context, ibv_qp_type type, void* of_program);

/// The application's object for an XRC target.
VerbsQp* publish_target(QueuePair made, VerbsXrcd& domain, void* of_program);

/// Updates `qp` after a change of state, as ibv_modify_qp() does; a reset also drops its completions.
void set_state(ibv_qp& qp, ibv_qp_state state);

}  // namespace uroce::dropin
