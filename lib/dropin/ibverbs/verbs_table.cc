#include "dropin/common/verbs_table.h"

#include <span>

#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/qp.h"

namespace uroce::dropin {
namespace {

Result<ConnectionManager> open_connection_manager() { return ConnectionManager::open(); }

ibv_qp* create_qp(ibv_context* context, ibv_qp_init_attr_ex* attr, const QueuePair::Step* steps, std::size_t count) {
  const std::span<const QueuePair::Step> all(steps, count);
  if (number_of(attr->qp_type) != IBV_QPT_XRC_RECV) return create_posting_qp(attr, all);
  ibv_qp* const qp = ibv_create_qp_ex(context, attr);
  if (qp == nullptr) return nullptr;
  if (const auto changed = of(qp)->api.modify(all); !changed) {
    ibv_destroy_qp(qp);
    return report_null(changed.error());
  }
  for (const QueuePair::Step& step : all) set_state(*qp, static_cast<ibv_qp_state>(step.attr.state));
  return qp;
}

QueuePair* queue_pair(ibv_qp* qp) { return &of(qp)->api; }

void note_state(ibv_qp* qp, ibv_qp_state state) { set_state(*qp, state); }

constexpr VerbsTable kTable{.version = kVerbsTableVersion,
                            .size = sizeof(VerbsTable),
                            .step_size = sizeof(QueuePair::Step),
                            .cxx = kCxxLibrary,
                            .open_connection_manager = open_connection_manager,
                            .create_qp = create_qp,
                            .queue_pair = queue_pair,
                            .note_state = note_state};

}  // namespace
}  // namespace uroce::dropin

extern "C" const uroce::dropin::VerbsTable* uroce_verbs_table() { return &uroce::dropin::kTable; }
