#include "transport/qp/xrc.h"

namespace uroce::transport {

bool borrow_srq(const Context& ctx, Qp& qp, const wire::Packet& packet) {
  QpCold& cold = *qp.cold;
  const uint32_t number = packet.xrceth.srqn;
  Srq* srq = ctx.xrc_srqs.find(number);
  if (srq == nullptr || srq->xrc_domain != cold.spec.xrc_domain) return false;
  if (qp.rx.message != Recv::none && number != cold.srqn) return false;
  cold.srqn = number;
  cold.srq = srq;
  qp.recv_cq = srq->cq;
  qp.pd = srq->pd;
  return true;
}

void return_srq(Qp& qp) {
  if (qp.rx.recv_in_use) return;
  qp.cold->srq = nullptr;
  qp.recv_cq = nullptr;
  qp.pd = qp.cold->spec.pd;
}

void hold_srq(Qp& qp) {
  QpCold& cold = *qp.cold;
  Qp*& first = cold.srq->holders;
  cold.next_holder = first;
  cold.previous_holder = nullptr;
  if (first != nullptr) first->cold->previous_holder = &qp;
  first = &qp;
}

void let_go_of_srq(Qp& qp) {
  QpCold& cold = *qp.cold;
  if (cold.next_holder != nullptr) cold.next_holder->cold->previous_holder = cold.previous_holder;
  (cold.previous_holder != nullptr ? cold.previous_holder->cold->next_holder : cold.srq->holders) = cold.next_holder;
  cold.next_holder = cold.previous_holder = nullptr;
}

void abandon_srq(Qp& qp) {
  if (!qp.rx.recv_in_use || qp.cold->srq == nullptr) return;
  let_go_of_srq(qp);
  qp.rx.recv_in_use = false;
  qp.rx.message = Recv::none;
  return_srq(qp);
}

}  // namespace uroce::transport
