#include "dropin/ibverbs/srq.h"

#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/events.h"
#include "dropin/ibverbs/post.h"
#include "dropin/ibverbs/validation.h"

namespace uroce::dropin {

namespace {

/// 0, or an errno value. Posts wait meanwhile.
int resize(VerbsSrq& srq, uint32_t max_wr) {
  const std::lock_guard guard(srq.lock);
  const auto resized = srq.api.resize(max_wr);
  if (!resized) return report(resized.error());
  const std::lock_guard lock(srq.ref->shared->mutex);
  srq.attr.max_wr = srq.api.max_wr();
  return 0;
}

}  // namespace

int post_srq_recv(ibv_srq* srq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return may_have_implicit(*of(srq)->ref->shared)
             ? post_resolved_receives(of(srq)->api, of(srq)->lock, *of(srq)->ref->shared, wr, bad)
             : post_receives(of(srq)->api, of(srq)->lock, wr, bad);
}

ibv_srq* create_basic_srq(ibv_context* /*context*/, ibv_srq_init_attr_ex* attr) {
  const bool basic = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || number_of(attr->srq_type) == IBV_SRQT_BASIC;
  if (!basic) {
    return refuse_null(EOPNOTSUPP,
                       "ibv_create_srq_ex(): only basic and XRC queues are offered; there is no tag matching");
  }
  if ((attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
    return refuse_null(EINVAL,
                       "ibv_create_srq_ex(): the protection domain is missing; set pd and its bit in comp_mask");
  }
  return ibv_create_srq(attr->pd, reinterpret_cast<ibv_srq_init_attr*>(attr));
}

ibv_srq* publish_srq(SharedReceiveQueue made, const VerbsSrq::Parts& parts, void* of_program, ibv_srq_attr& attr) {
  auto* srq = make_in<VerbsSrq>(parts.pd, parts, std::move(made));
  if (srq == nullptr) return nullptr;
  srq->context = parts.pd->context;
  srq->srq_context = of_program;
  srq->pd = parts.pd;
  srq->handle = srq->api.id();
  srq->attr = {srq->api.max_wr(), srq->api.max_sge(), 0};
  pthread_mutex_init(&srq->mutex, nullptr);
  pthread_cond_init(&srq->cond, nullptr);
  srq->live.begin(ObjectKind::srq, srq, srq->handle, srq->context);
  publish(srq->context, &SharedContext::srqs, srq->handle, srq);
  validation::made(*srq, parts.cq);
  attr.max_wr = srq->attr.max_wr;
  attr.max_sge = srq->attr.max_sge;
  return srq;
}

int get_srq_num(ibv_srq* srq, uint32_t* number) {
  *number = of(srq)->api.id();
  return 0;
}

}  // namespace uroce::dropin

using namespace uroce::dropin;

extern "C" {

ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  if (check_live(pd, EINVAL) != 0) return nullptr;
  const ibv_srq_attr& asked = init->attr;
  auto made = of(pd->context)->api.create_srq(of(pd)->domain(), asked.max_wr, asked.max_sge);
  if (!made) return report_null(made.error());
  return publish_srq(std::move(*made), {.pd = of(pd)}, init->srq_context, init->attr);
}

int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  if (const int error = check_live(srq, EINVAL); error != 0) return error;
  if ((mask & ~(IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT)) != 0) return failed(EINVAL);
  if ((mask & IBV_SRQ_MAX_WR) != 0) {
    if (const int error = resize(*of(srq), attr->max_wr); error != 0) return error;
  }
  if ((mask & IBV_SRQ_LIMIT) == 0) return 0;
  const std::lock_guard lock(of(srq->context)->shared->mutex);
  const auto set = of(srq)->api.set_limit(attr->srq_limit);
  if (!set) return report(set.error());
  of(srq)->attr.srq_limit = attr->srq_limit;
  return 0;
}

int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  if (const int error = check_live(srq, EINVAL); error != 0) return error;
  const std::lock_guard lock(of(srq->context)->shared->mutex);
  *attr = of(srq)->attr;
  return 0;
}

int ibv_destroy_srq(ibv_srq* ibsrq) {
  if (const int error = check_live(ibsrq, ENOENT); error != 0) return error;
  VerbsSrq* srq = of(ibsrq);
  if (srq->users.any()) return validation::busy("ibv_destroy_srq()");
  validation::gone(*srq);
  withdraw(srq->context, &SharedContext::srqs, srq->handle);
  wait_for_acks("shared receive queue", srq->mutex, srq->cond, srq->events_completed, srq->events_delivered);
  pthread_cond_destroy(&srq->cond);
  pthread_mutex_destroy(&srq->mutex);
  destroy(srq);
  return 0;
}

}  // extern "C"
