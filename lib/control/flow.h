// A receive rule of a raw packet queue pair (include/uroce/flow.h).
#pragma once

#include <cstdint>
#include <memory>

#include <uroce/error.h>
#include <uroce/flow.h>

namespace uroce::control {

class ControlQp;

class Flow {
 public:
  /// The rule keeps its queue pair alive. Any thread. Errors: EINVAL (see wire::make_pattern(), or not a raw packet
  /// queue pair), ENOMEM (FlowTable::kMaxRules of the device), ETIMEDOUT, ENODEV.
  static Result<std::shared_ptr<Flow>> create(std::shared_ptr<ControlQp> qp, const FlowRule& rule);

  const std::shared_ptr<ControlQp>& qp() const { return qp_; }
  const FlowRule& rule() const { return rule_; }

 private:
  Flow(std::shared_ptr<ControlQp> qp, const FlowRule& rule, uint64_t id) : qp_(std::move(qp)), rule_(rule), id_(id) {}
  /// Deleter: takes the rule from the engines.
  static void destroy(Flow* flow);

  std::shared_ptr<ControlQp> qp_;
  FlowRule rule_;
  uint64_t id_;
};

}  // namespace uroce::control
