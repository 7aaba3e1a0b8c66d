#include "dropin/ibverbs/wq.h"

#include "dropin/common/foreign_enum.h"
#include "dropin/ibverbs/cq.h"
#include "dropin/ibverbs/events.h"
#include "dropin/ibverbs/post.h"
#include "dropin/ibverbs/validated_calls.h"
#include "dropin/ibverbs/validation.h"

namespace uroce::dropin {

namespace {

int post_wq_recv(ibv_wq* wq, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  return may_have_implicit(*of(wq)->ref->shared)
             ? post_resolved_receives(of(wq)->api, of(wq)->lock, *of(wq)->ref->shared, wr, bad)
             : post_receives(of(wq)->api, of(wq)->lock, wr, bad);
}

/// As mlx4 has it: an empty queue has nothing to flush, and a failed one must be emptied first.
bool may_change(uint32_t from, uint32_t to) {
  if (from > IBV_WQS_ERR || to > IBV_WQS_ERR) return false;
  const bool runs_after_failure = from == IBV_WQS_ERR && to == IBV_WQS_RDY;
  const bool fails_while_empty = from == IBV_WQS_RESET && to == IBV_WQS_ERR;
  return !runs_after_failure && !fails_while_empty;
}

Result<void> set_state(QueuePair& qp, ibv_wq_state state) {
  if (state != IBV_WQS_RDY) {
    return qp.modify({.state = state == IBV_WQS_ERR ? QpState::error : QpState::reset}, QpAttrBit::state);
  }
  const QueuePair::Step steps[] = {{{.state = QpState::init}, QpAttrBit::state | QpAttrBit::port},
                                   {{.state = QpState::rtr}, QpAttrBit::state}};
  return qp.modify(steps);
}

}  // namespace

ibv_wq* create_wq(ibv_context* context, ibv_wq_init_attr* attr) {
  if ((attr->comp_mask & ~uint32_t{IBV_WQ_INIT_ATTR_FLAGS}) != 0) return failed_null(EOPNOTSUPP);
  if ((attr->comp_mask & IBV_WQ_INIT_ATTR_FLAGS) != 0 && attr->create_flags != 0) return failed_null(EOPNOTSUPP);
  if (number_of(attr->wq_type) != IBV_WQT_RQ || attr->pd == nullptr || attr->cq == nullptr) return failed_null(EINVAL);
  if (check_live(attr->pd, EINVAL) != 0 || check_live(attr->cq, EINVAL) != 0) return nullptr;
  VerbsPd* const pd = of(attr->pd);
  VerbsCq* const cq = of(attr->cq);
  const QpInit init{
      .type = QpType::raw_packet,
      .cap = {.max_send_wr = 0, .max_recv_wr = attr->max_wr, .max_send_sge = 0, .max_recv_sge = attr->max_sge}};
  auto made = of(context)->api.create_qp(pd->domain(), cq->api, cq->api, init);
  if (!made) return report_null(made.error());
  attr->max_wr = made->cap().max_recv_wr;
  attr->max_sge = made->cap().max_recv_sge;
  auto* wq = make_in<VerbsWq>(pd, pd, cq, std::move(*made));
  if (wq == nullptr) return nullptr;
  wq->context = context;
  wq->pd = pd;
  wq->cq = attr->cq;
  wq->wq_num = wq->handle = wq->api.qpn();
  wq->state = IBV_WQS_RESET;
  wq->wq_type = IBV_WQT_RQ;
  wq->post_recv = post_wq_recv;
  validation::replace_operations(*wq);
  validation::made(*wq);
  wq->live.begin(ObjectKind::wq, wq, wq->handle, wq->context);
  publish(context, &SharedContext::wqs, wq->wq_num, wq);
  return wq;
}

int modify_wq(ibv_wq* wq, ibv_wq_attr* attr) {
  if (const int error = check_live(wq, EINVAL); error != 0) return error;
  if ((attr->attr_mask & ~uint32_t{IBV_WQ_ATTR_STATE | IBV_WQ_ATTR_CURR_STATE}) != 0) return failed(EOPNOTSUPP);
  if ((attr->attr_mask & IBV_WQ_ATTR_CURR_STATE) != 0 && number_of(attr->curr_wq_state) != number_of(wq->state))
    return failed(EINVAL);
  if ((attr->attr_mask & IBV_WQ_ATTR_STATE) == 0) return 0;
  if (!may_change(number_of(wq->state), number_of(attr->wq_state))) return failed(EINVAL);
  if (wq->state == IBV_WQS_RDY && attr->wq_state == IBV_WQS_RDY) return 0;
  const auto changed = set_state(of(wq)->api, attr->wq_state);
  if (!changed) return report(changed.error());
  wq->state = attr->wq_state;
  if (wq->state == IBV_WQS_RESET) {
    forget(wq->cq, wq->wq_num);
    validation::emptied(*of(wq));
  }
  return 0;
}

int destroy_wq(ibv_wq* ibwq) {
  if (const int error = check_live(ibwq, ENOENT); error != 0) return error;
  VerbsWq* wq = of(ibwq);
  if (wq->users.any()) return validation::busy("ibv_destroy_wq()");
  validation::gone_queue_pair(wq);
  withdraw(wq->context, &SharedContext::wqs, wq->wq_num);
  wait_for_acks("receive work queue", wq->mutex, wq->cond, wq->events_completed, wq->events_delivered);
  pthread_cond_destroy(&wq->cond);
  pthread_mutex_destroy(&wq->mutex);
  {
    const QueuePair ended = std::move(wq->api);
  }  // nothing completes after this
  forget(wq->cq, wq->wq_num);
  destroy(wq);
  return 0;
}

}  // namespace uroce::dropin
