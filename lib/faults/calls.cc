#include "faults/calls.h"

#include <fmt/format.h>

#include <algorithm>

#include "faults/call_names.h"

namespace uroce::faults {

bool chooses(const Rule& rule, const MadeCall& call) {
  if (!rule.device.empty() && rule.device != call.device) return false;
  const auto is_its = [&](const std::string& one) { return one == call.command || one == std::to_string(call.pid); };
  if (!rule.programs.empty() && std::ranges::none_of(rule.programs, is_its)) return false;
  const auto row = std::ranges::find(call_names(), call.op, &CallName::op);
  if (row == call_names().end()) return false;
  return rule.calls ? rule.calls->test(static_cast<std::size_t>(row - call_names().begin())) : row->makes;
}

CallFate fate_of(const Rules& rules, const MadeCall& call, Nanos now) {
  CallFate fate;
  for (const auto& one : rules) {
    if (one->rule.subject != Subject::calls || !chooses(one->rule, call) || !one->fires(now)) continue;
    if (one->rule.action == Action::delay) {
      fate.delay += one->rule.delay;
      continue;
    }
    fate.error = one->rule.error;
    fate.text = fmt::format("fault rule {} lets it fail: {}", one->number, one->rule.text);
    return fate;
  }
  return fate;
}

}  // namespace uroce::faults
