// Creating, modifying and querying a queue pair (ibv_create_qp(3), ibv_modify_qp(3), ibv_query_qp(3),
// ibv_query_ece(3)).
#include "dropin/ibverbs/qp.h"

#include "dropin/common/foreign_enum.h"
#include "dropin/common/qp_attr.h"
#include "dropin/ibverbs/cq.h"
#include "dropin/ibverbs/events.h"
#include "dropin/ibverbs/identity.h"
#include "dropin/ibverbs/qp_ex.h"
#include "dropin/ibverbs/served_types.h"
#include "dropin/ibverbs/validated_calls.h"
#include "dropin/ibverbs/validation.h"

namespace uroce::dropin {

VerbsQp* publish_qp(VerbsQp* qp, ibv_context* context, ibv_qp_type type, void* of_program) {
  ibv_qp& base = qp->qp_base;
  base.context = context;
  base.qp_context = of_program;
  base.qp_num = qp->api.qpn();
  base.handle = base.qp_num;
  base.state = IBV_QPS_RESET;
  base.qp_type = type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  fill_wr_operations(*qp);
  validation::replace_operations(*qp);
  qp->live.begin(ObjectKind::qp, qp, base.handle, context);
  publish(context, &SharedContext::qps, base.qp_num, qp);
  return qp;
}

namespace {

/// Linux ignores attributes of the other half of an extended connection; perftest gives both halves the same.
int mask_of(ibv_qp_type type, int mask) {
  switch (type) {
    case IBV_QPT_XRC_SEND: return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    case IBV_QPT_XRC_RECV: return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
    default: return mask;
  }
}

/// Common to all create calls. `attr` is the part that their structures share; it returns the sizes in force.
VerbsQp* make_qp(ibv_pd* pd, ibv_qp_init_attr& attr, std::span<const QueuePair::Step> steps) {
  if (!is_served(number_of(attr.qp_type))) {
    return refuse_null(EOPNOTSUPP, "ibv_create_qp(): only RC, UC, UD, XRC and raw packet queue pairs are offered");
  }
  // An initiator receives nothing.
  const bool initiator = attr.qp_type == IBV_QPT_XRC_SEND;
  if (attr.qp_type == IBV_QPT_XRC_RECV) {
    return refuse_null(EINVAL, "ibv_create_qp(): an XRC target has a domain; create it with ibv_create_qp_ex()");
  }
  if (attr.send_cq == nullptr || (attr.recv_cq == nullptr && !initiator)) {
    return refuse_null(EINVAL, "ibv_create_qp(): a completion queue is missing; set send_cq and recv_cq");
  }
  if (check_all_live(EINVAL, pd, attr.send_cq, attr.recv_cq, attr.srq) != 0) return nullptr;
  VerbsCq* send = of(attr.send_cq);
  VerbsCq* recv = attr.recv_cq != nullptr ? of(attr.recv_cq) : nullptr;
  VerbsSrq* srq = attr.srq != nullptr ? of(attr.srq) : nullptr;
  QpInit init;
  init.type = static_cast<QpType>(attr.qp_type);
  init.cap = convert(attr.cap);
  init.signal_all = attr.sq_sig_all != 0;
  auto made = of(pd->context)
                  ->api.create_qp(of(pd)->domain(), send->api, (recv != nullptr ? recv : send)->api, init,
                                  srq != nullptr ? &srq->api : nullptr, steps);
  if (!made) return report_null(made.error());

  auto* qp = make_in<VerbsQp>(of(pd), of(pd), std::move(*made), send, recv, srq);
  if (qp == nullptr) return nullptr;
  ibv_qp& base = qp->qp_base;
  base.pd = pd;
  base.send_cq = attr.send_cq;
  base.recv_cq = attr.recv_cq;
  base.srq = attr.srq;
  qp->signal_all = init.signal_all;
  attr.cap = convert(qp->api.cap());
  if (srq != nullptr || initiator) attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
  qp->list.set_limits(attr.cap.max_send_sge, attr.cap.max_inline_data);
  publish_qp(qp, pd->context, attr.qp_type, attr.qp_context);
  for (const QueuePair::Step& step : steps) base.state = static_cast<ibv_qp_state>(step.attr.state);
  validation::made(*qp);
  return qp;
}

/// ibv_destroy_qp(3): a queue pair in a group cannot be destroyed.
bool attached(const VerbsQp& qp) {
  const std::lock_guard lock(qp.ref->shared->mutex);
  return !qp.groups.empty();
}

}  // namespace

VerbsQp* publish_target(QueuePair made, VerbsXrcd& domain, void* of_program) {
  auto* qp = publish_qp(new VerbsQp(domain, std::move(made)), domain.context, IBV_QPT_XRC_RECV, of_program);
  validation::made(*qp);
  return qp;
}

ibv_qp* create_posting_qp(ibv_qp_init_attr_ex* attr, std::span<const QueuePair::Step> steps) {
  constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
  if ((attr->comp_mask & ~kKnown) != 0) {
    return refuse_null(EOPNOTSUPP,
                       "ibv_create_qp_ex(): no TSO header, RSS, receive work queue or source QPN is offered");
  }
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
    return refuse_null(EINVAL, "ibv_create_qp_ex(): the protection domain is missing; set pd and its bit in comp_mask");
  }
  if ((attr->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && attr->create_flags != 0) {
    return refuse_null(EOPNOTSUPP, "ibv_create_qp_ex(): no create_flags are offered");
  }
  const bool extended = (attr->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  if (extended && (attr->send_ops_flags & ~served_send_operations(number_of(attr->qp_type))) != 0) {
    return refuse_null(EOPNOTSUPP,
                       "ibv_create_qp_ex(): send_ops_flags has an operation that queue pairs of this type lack");
  }
  VerbsQp* qp = make_qp(attr->pd, *reinterpret_cast<ibv_qp_init_attr*>(attr), steps);
  if (qp == nullptr) return nullptr;
  qp->extended = extended;
  if (extended) validation::declared(*qp, attr->send_ops_flags);
  return &qp->qp_base;
}

int modify_qp_rate_limit(ibv_qp* qp, ibv_qp_rate_limit_attr* attr) {
  if (const int error = check_live(qp, EINVAL); error != 0) return error;
  if (attr->comp_mask != 0) return failed(EINVAL);
  // Bursts are as short as the engine's polls allow; packets' sizes are known.
  if (attr->max_burst_sz != 0 || qp->qp_type != IBV_QPT_RC) {
    return refuse(EOPNOTSUPP, "ibv_modify_qp_rate_limit(): RC alone has a limit, and no max_burst_sz; set that to 0");
  }
  const auto changed = of(qp)->api.modify({.rate_limit = attr->rate_limit}, QpAttrBit::rate_limit);
  return changed ? 0 : report(changed.error());
}

void set_state(ibv_qp& qp, ibv_qp_state state) {
  qp.state = state;
  validation::changed(*of(&qp));
  if (state == IBV_QPS_RESET) forget(qp.send_cq, qp.recv_cq, qp.qp_num);
}

}  // namespace uroce::dropin

using namespace uroce;
using namespace uroce::dropin;

extern "C" {

ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* attr) {
  VerbsQp* qp = make_qp(pd, *attr, {});
  return qp != nullptr ? &qp->qp_base : nullptr;
}

ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) { return of(qp)->extended ? of(qp) : nullptr; }

int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  if (const int error = check_live(qp, EINVAL); error != 0) return error;
  if (of(qp)->rss) return refuse(EOPNOTSUPP, "an RSS queue pair has no states; modify its WQs");
  // Programs try it out, as they do on a port that cannot pace raw packets.
  if ((mask & IBV_QP_RATE_LIMIT) != 0 && qp->qp_type == IBV_QPT_RAW_PACKET) {
    return refuse(EOPNOTSUPP, "ibv_modify_qp(): RC alone has a rate limit; leave IBV_QP_RATE_LIMIT out");
  }
  mask = mask_of(qp->qp_type, mask);
  validation::will_modify(*of(qp), *attr, mask);
  QpAttr wanted;
  if (const int error = convert(*attr, mask, wanted); error != 0) return failed(error);
  const auto changed = of(qp)->api.modify(wanted, QpAttrMask::from_bits(static_cast<uint32_t>(mask)));
  if (!changed) return report(changed.error());
  validation::changed(*of(qp), *attr, mask);
  if ((mask & IBV_QP_STATE) != 0) set_state(*qp, static_cast<ibv_qp_state>(wanted.state));
  return 0;
}

int ibv_query_qp(ibv_qp* ibqp, ibv_qp_attr* attr, int mask, ibv_qp_init_attr* init) {
  if (const int error = check_live(ibqp, EINVAL); error != 0) return error;
  VerbsQp& qp = *of(ibqp);
  if (qp.rss) return refuse(EOPNOTSUPP, "an RSS queue pair has no attributes to query");
  const auto asked = qp.api.query();
  if (!asked) return report(asked.error());
  convert(*asked, *attr);
  attr->cap = convert(qp.api.cap());
  if (ibqp->srq != nullptr) attr->cap.max_recv_wr = attr->cap.max_recv_sge = 0;
  if ((mask & IBV_QP_STATE) != 0) {
    ibqp->state = attr->qp_state;
    validation::changed(qp);
  }
  *init = {ibqp->qp_context, ibqp->send_cq, ibqp->recv_cq, ibqp->srq, attr->cap, ibqp->qp_type, qp.signal_all ? 1 : 0};
  return 0;
}

int ibv_query_qp_data_in_order(ibv_qp* /*qp*/, ibv_wr_opcode /*op*/, uint32_t /*flags*/) {
  return 0;  // out-of-order packets may be placed before packets that were sent earlier
}

int ibv_destroy_qp(ibv_qp* ibqp) {
  if (const int error = check_live(ibqp, ENOENT); error != 0) return error;
  VerbsQp* qp = of(ibqp);
  if (qp->flows.any() || attached(*qp)) return validation::busy("ibv_destroy_qp()");
  validation::gone_queue_pair(qp);
  withdraw(ibqp->context, &SharedContext::qps, qp->api.qpn(), qp);
  wait_for_acks("queue pair", ibqp->mutex, ibqp->cond, ibqp->events_completed, qp->events_delivered);
  pthread_cond_destroy(&ibqp->cond);
  pthread_mutex_destroy(&ibqp->mutex);
  {
    const QueuePair ended = std::move(qp->api);
  }  // nothing completes after this
  forget(ibqp->send_cq, ibqp->recv_cq, ibqp->qp_num);
  destroy(qp);
  return 0;
}

// Enhanced connection establishment: no options exist yet, so nothing is ever agreed on.
int ibv_set_ece(ibv_qp* qp, ibv_ece* ece) {
  if (ece->vendor_id == 0) return refuse(EOPNOTSUPP, "ibv_set_ece(): no vendor's options are known");
  if (ece->comp_mask != 0 || ece->vendor_id != kVendorId) return failed(EINVAL);
  of(qp)->ece = {kVendorId, 0, 0};
  return 0;
}

int ibv_query_ece(ibv_qp* /*qp*/, ibv_ece* ece) {
  *ece = {kVendorId, 0, 0};
  return 0;
}

}  // extern "C"
