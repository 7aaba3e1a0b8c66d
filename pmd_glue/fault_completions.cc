#include "pmd_glue/fault_completions.h"

#include <algorithm>
#include <utility>

namespace uroce::glue {

namespace {

/// Until completions are looked for again.
constexpr Nanos kTurn = std::chrono::microseconds(100);
/// The longest wait for others that are to come at the same time.
constexpr Nanos kPatience = std::chrono::milliseconds(10);

}  // namespace

Result<void> DeviceCompletions::set(const faults::Rules& all) {
  faults::Rules rules = faults::of(faults::Subject::completions, all);
  std::erase_if(
      rules, [&](const auto& one) { return !one->rule.device.empty() && one->rule.device != device_->config().name; });
  const bool any = !rules.empty();
  {
    const auto lock = device_->runner().lock();
    if (!any && rules_.empty()) return {};
    std::swap(rules_, rules);
  }
  return control::hold_completions(*device_, any ? this : nullptr);
}

Nanos DeviceCompletions::take_turn(Nanos now) {
  {
    const auto lock = device_->runner().lock();
    if (rules_.empty()) return kNever;
  }
  control::release_completions(*device_, now);
  return now + kTurn;
}

control::CompletionFate DeviceCompletions::fate_of(uint32_t cq, Nanos now) {
  control::CompletionFate fate;
  for (const auto& one : rules_) {
    const faults::Rule& rule = one->rule;
    if (rule.object && *rule.object != cq) continue;
    const auto draw = one->fires(now);
    if (!draw) continue;
    if (rule.action == faults::Action::hold) {
      fate.delay += rule.delay;
    } else if (rule.action == faults::Action::late_event) {
      fate.event_delay += rule.delay;
    } else {
      fate.together = std::max(fate.together, rule.together);
      fate.patience = kPatience;
      fate.mixed |= rule.action == faults::Action::shuffle;
      fate.seed = *draw;
    }
  }
  return fate;
}

void FaultCompletions::add(const std::shared_ptr<control::Device>& device) {
  const auto same = [&](const auto& one) { return &one->device() == device.get(); };
  if (std::ranges::none_of(devices_, same)) devices_.push_back(std::make_unique<DeviceCompletions>(device));
}

Result<void> FaultCompletions::set(const faults::Rules& all) {
  Result<void> done;
  for (const auto& one : devices_) {
    if (auto set = one->set(all); !set) done = std::move(set);
  }
  return done;
}

Nanos FaultCompletions::take_turn(Nanos now) {
  Nanos next = kNever;
  for (const auto& one : devices_) next = std::min(next, one->take_turn(now));
  return next;
}

}  // namespace uroce::glue
