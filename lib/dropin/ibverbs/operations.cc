// The function tables behind the inline functions of verbs.h. The header returns EOPNOTSUPP for a null entry.
#include "dropin/common/foreign_enum.h"
#include "dropin/common/report.h"
#include "dropin/ibverbs/counters.h"
#include "dropin/ibverbs/cq.h"
#include "dropin/ibverbs/device_memory.h"
#include "dropin/ibverbs/flow.h"
#include "dropin/ibverbs/memory.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/on_demand.h"
#include "dropin/ibverbs/post.h"
#include "dropin/ibverbs/qp.h"
#include "dropin/ibverbs/query.h"
#include "dropin/ibverbs/rss.h"
#include "dropin/ibverbs/srq.h"
#include "dropin/ibverbs/window.h"
#include "dropin/ibverbs/wq.h"
#include "dropin/ibverbs/xrc.h"

#undef ibv_query_port

namespace uroce::dropin {

namespace {

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* attr) {
  const bool xrc = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0 && number_of(attr->srq_type) == IBV_SRQT_XRC;
  return xrc ? create_xrc_srq(*attr) : create_basic_srq(context, attr);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* attr) {
  if (wants_rss(*attr)) return create_rss_qp(context, *attr);
  return number_of(attr->qp_type) == IBV_QPT_XRC_RECV ? create_xrc_target(*attr) : create_posting_qp(attr);
}

// The header would answer alike for a null entry, and nobody would hear why.
ibv_flow_action* create_flow_action_esp(ibv_context* /*context*/, ibv_flow_action_esp_attr* /*attr*/) {
  return refuse_null(EOPNOTSUPP, "ibv_create_flow_action_esp(): IPsec is not offered");
}

}  // namespace

void fill_operations(VerbsContext& context) {
  ibv_context_ops& ops = context.context.ops;
  ops._compat_query_device = ibv_query_device;
  ops._compat_query_port = ibv_query_port;
  ops.alloc_mw = alloc_mw;
  ops.bind_mw = bind_mw;
  ops.dealloc_mw = dealloc_mw;
  ops.poll_cq = poll_cq;
  ops.req_notify_cq = req_notify_cq;
  ops.post_srq_recv = post_srq_recv;
  ops.post_send = post_send;
  ops.post_recv = post_recv;

  context.create_flow_action_esp = create_flow_action_esp;
  context.query_port = query_port;
  context.alloc_dm = alloc_dm;
  context.free_dm = free_dm;
  context.reg_dm_mr = reg_dm_mr;
  context.alloc_null_mr = alloc_null_mr;
  context.advise_mr = advise_mr;
  context.query_device_ex = query_device_ex;
  context.query_rt_values = query_rt_values;
  context.create_cq_ex = create_cq_ex;
  context.modify_cq = modify_cq;
  context.create_qp_ex = create_qp_ex;
  context.modify_qp_rate_limit = modify_qp_rate_limit;
  context.create_srq_ex = create_srq_ex;
  context.get_srq_num = get_srq_num;
  context.ibv_create_flow = create_flow;
  context.ibv_destroy_flow = destroy_flow;
  context.create_wq = create_wq;
  context.modify_wq = modify_wq;
  context.destroy_wq = destroy_wq;
  context.create_rwq_ind_table = create_rwq_ind_table;
  context.destroy_rwq_ind_table = destroy_rwq_ind_table;
  context.create_counters = create_counters;
  context.destroy_counters = destroy_counters;
  context.attach_counters_point_flow = attach_counters_point_flow;
  context.read_counters = read_counters;
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
  context.open_xrcd = open_xrcd;
  context.close_xrcd = close_xrcd;
  context.open_qp = open_qp;
}

}  // namespace uroce::dropin
