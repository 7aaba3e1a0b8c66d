#include "dropin/common/verbs_table.h"

#include <span>

#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/qp.h"

namespace uroce::dropin {
namespace {

int modify_qp_steps(ibv_qp* qp, const QueuePair::Step* steps, std::size_t count) {
  const auto changed = of(qp)->api.modify(std::span(steps, count));
  if (!changed) return report(changed.error());
  for (const QueuePair::Step& step : std::span(steps, count)) {
    if (step.mask.has(QpAttrBit::state)) set_state(*qp, static_cast<ibv_qp_state>(step.attr.state));
  }
  return 0;
}

int modify_qp_with_next(ibv_qp* qp, const QueuePair::Step* step) {
  of(qp)->api.modify_with_next(*step);
  if (step->mask.has(QpAttrBit::state)) set_state(*qp, static_cast<ibv_qp_state>(step->attr.state));
  return 0;
}

constexpr VerbsTable kTable{.version = kVerbsTableVersion,
                            .size = sizeof(VerbsTable),
                            .step_size = sizeof(QueuePair::Step),
                            .modify_qp_steps = modify_qp_steps,
                            .modify_qp_with_next = modify_qp_with_next};

}  // namespace
}  // namespace uroce::dropin

extern "C" const uroce::dropin::VerbsTable* uroce_verbs_table() { return &uroce::dropin::kTable; }
