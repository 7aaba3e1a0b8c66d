// Names of opcodes in rules.
#pragma once

#include <string_view>

#include <uroce/error.h>

#include "faults/rule.h"

namespace uroce::faults {

/// Adds the opcodes of a list to the rule: names of the opcode table in any case, with or without their transport
/// ("send_only", "uc_send_only"), beginnings ("write*"), and "nak" and "rnr", which are ACKs. Errors: EINVAL.
Result<void> read_opcodes(std::string_view list, Rule& rule);

}  // namespace uroce::faults
