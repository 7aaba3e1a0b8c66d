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

int lend(ibv_context* context, const CmPass* pass) {
  const auto lent = of(context)->api.lend(*pass);
  return lent ? 0 : lent.error().code;
}

int carry(ibv_qp* qp, uint16_t operation, const std::byte* request, std::size_t bytes, uint64_t* position) {
  const auto carried = of(qp)->api.carry(operation, std::span(request, bytes));
  if (!carried) return report(carried.error());
  *position = *carried;
  return 0;
}

void assume(ibv_qp* qp, ibv_qp_state state) {
  of(qp)->api.assume(static_cast<QpState>(state));
  if (qp->state < state) set_state(*qp, state);
}

int settle(ibv_context* context, uint64_t position) {
  const auto settled = of(context)->api.settle(position);
  return settled ? 0 : settled.error().code;
}

constexpr VerbsTable kTable{.version = kVerbsTableVersion,
                            .size = sizeof(VerbsTable),
                            .step_size = sizeof(QueuePair::Step),
                            .modify_qp_steps = modify_qp_steps,
                            .modify_qp_with_next = modify_qp_with_next,
                            .lend = lend,
                            .carry = carry,
                            .assume = assume,
                            .settle = settle};

}  // namespace
}  // namespace uroce::dropin

extern "C" const uroce::dropin::VerbsTable* uroce_verbs_table() { return &uroce::dropin::kTable; }
