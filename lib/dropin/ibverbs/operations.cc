// The function tables behind the inline functions of verbs.h. The header returns EOPNOTSUPP for a null entry; entries
// that it does not check point to a function that returns EOPNOTSUPP.
#include "dropin/ibverbs/cq.h"
#include "dropin/ibverbs/memory.h"
#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/post.h"
#include "dropin/ibverbs/qp.h"
#include "dropin/ibverbs/query.h"
#include "dropin/ibverbs/srq.h"
#include "dropin/ibverbs/window.h"

#undef ibv_query_port

namespace uroce::dropin {

namespace {

template <class... Arguments>
int not_offered(Arguments... /*unused*/) {
  return failed(EOPNOTSUPP);
}
template <class T, class... Arguments>
T* nothing_offered(Arguments... /*unused*/) {
  return failed_null(EOPNOTSUPP);
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

  context.query_port = query_port;
  context.query_device_ex = query_device_ex;
  context.query_rt_values = query_rt_values;
  context.create_cq_ex = create_cq_ex;
  context.modify_cq = modify_cq;
  context.create_qp_ex = create_qp_ex;
  context.create_srq_ex = create_srq_ex;
  context.get_srq_num = get_srq_num;
  context.alloc_td = alloc_td;
  context.dealloc_td = dealloc_td;
  context.alloc_parent_domain = alloc_parent_domain;
  context.open_xrcd = nothing_offered<ibv_xrcd>;
  context.close_xrcd = not_offered;
}

}  // namespace uroce::dropin
