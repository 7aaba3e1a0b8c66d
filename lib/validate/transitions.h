// The attributes that a change of a queue pair's state needs and may have (IBTA vol. 1, 10.3.1 and table 91; Linux has
// the same table).
#pragma once

#include <optional>
#include <string>

#include <uroce/types.h>

#include "validate/misuse.h"

namespace uroce::validate {

const char* name_of(QpState state);
/// The names of ibv_modify_qp(3), as "IBV_QP_AV, IBV_QP_TIMEOUT".
std::string names_of(QpAttrMask mask);
/// The fault of ibv_modify_qp() with this mask. Without QpAttrBit::state, `to` is `from`.
std::optional<Finding> check_transition(QpType type, QpState from, QpState to, QpAttrMask mask,
                                        const std::string& call);

}  // namespace uroce::validate
