// Queue pairs through the operation tables (ibv_create_qp_ex(3)).
#pragma once

#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);

/// Updates `qp` after a change of state, as ibv_modify_qp() does; a reset also drops its completions.
void set_state(ibv_qp& qp, ibv_qp_state state);

}  // namespace uroce::dropin
