// Queue pairs through the operation tables (ibv_create_qp_ex(3)).
#pragma once

#include "base/wr_opcodes.h"
#include "dropin/ibverbs/objects.h"

namespace uroce::dropin {

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr);

/// The types that uroce has (base/wr_opcodes.h).
inline bool is_served(ibv_qp_type type) {
  return static_cast<int>(type) <= UINT8_MAX && is_known(static_cast<QpType>(type));
}

/// After a change of state: as ibv_modify_qp() leaves `qp`, and without its completions where it was reset.
void set_state(ibv_qp& qp, ibv_qp_state state);

}  // namespace uroce::dropin
