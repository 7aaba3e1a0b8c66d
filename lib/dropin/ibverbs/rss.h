// Receive-side scaling: indirection tables of WQs, and the queue pairs whose rules spread frames over them
// (ibv_create_rwq_ind_table(3), ibv_create_qp_ex(3)).
#pragma once

#include <deque>
#include <vector>

#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/verbs_wq.h"

namespace uroce::dropin {

struct VerbsIndTable : ibv_rwq_ind_table {
  VerbsIndTable(ibv_context* owner, std::vector<VerbsWq*> entries)
      : ibv_rwq_ind_table{}, ref(owner), wqs(std::move(entries)) {
    context = owner;
    ind_tbl_handle = ind_tbl_num = static_cast<int>(ref->shared->next_handle++);
    for (const VerbsWq* wq : wqs) of_wqs.emplace_back(&wq->users);
    live.begin(ObjectKind::ind_table, this, 0, context);
  }
  ContextRef ref;
  std::vector<VerbsWq*> wqs;
  std::deque<UseOf> of_wqs;
  Users users;  ///< queue pairs
  Live live;
};

inline VerbsIndTable* of(ibv_rwq_ind_table* table) { return static_cast<VerbsIndTable*>(table); }

/// The table and hash that an RSS queue pair has instead of queues.
struct ReceiveScaling {
  ReceiveScaling(VerbsIndTable* spreads_over, const RxHash& by)
      : table(spreads_over), hash(by), of_table(&spreads_over->users) {}
  VerbsIndTable* table;
  RxHash hash;
  UseOf of_table;
};

ibv_rwq_ind_table* create_rwq_ind_table(ibv_context* context, ibv_rwq_ind_table_init_attr* attr);
int destroy_rwq_ind_table(ibv_rwq_ind_table* table);

/// Whether `attr` asks for an RSS queue pair, and that queue pair.
inline bool wants_rss(const ibv_qp_init_attr_ex& attr) {
  return (attr.comp_mask & (IBV_QP_INIT_ATTR_RX_HASH | IBV_QP_INIT_ATTR_IND_TABLE)) != 0;
}
ibv_qp* create_rss_qp(ibv_context* context, ibv_qp_init_attr_ex& attr);

/// A rule of an RSS queue pair.
Result<Flow> create_rss_flow(Context& api, const ReceiveScaling& rss, const FlowRule& rule);

}  // namespace uroce::dropin
