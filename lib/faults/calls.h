// The calls that rules may choose: those by which programs make and change objects at the daemon.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/time.h"
#include "faults/rule.h"
#include "faults/rule_set.h"
#include "message/protocol.h"

namespace uroce::faults {

/// A call that a program makes.
struct MadeCall {
  message::Op op{};
  std::string_view device{};   ///< empty: it is for none
  std::string_view command{};  ///< the program's name
  int32_t pid = 0;
};

/// Whether the rule chooses the call, before counts and chances. Without call= it chooses those that make objects.
bool chooses(const Rule& rule, const MadeCall& call);

/// The effect of rules on a call.
struct CallFate {
  Nanos delay{0};
  int error = 0;       ///< 0: the call goes on
  std::string text{};  ///< with an error: why
};
/// Asks all rules about a call. Any thread.
CallFate fate_of(const Rules& rules, const MadeCall& call, Nanos now);

}  // namespace uroce::faults
