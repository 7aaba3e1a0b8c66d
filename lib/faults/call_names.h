// Names of calls and of their errors in rules.
#pragma once

#include <span>
#include <string_view>

#include <uroce/error.h>

#include "faults/rule.h"
#include "message/protocol.h"

namespace uroce::faults {

struct CallName {
  std::string_view name;  ///< of libibverbs without "ibv_", or of librdmacm
  message::Op op;
  bool makes;  ///< an object
};
/// A call may have several operations, one after the other in the table.
std::span<const CallName> call_names();

/// Adds the calls of a list to the rule: names, or beginnings ("create*"). Errors: EINVAL.
Result<void> read_calls(std::string_view list, Rule& rule);
/// "ENOMEM". Errors: EINVAL.
Result<int> read_error(std::string_view name);

}  // namespace uroce::faults
