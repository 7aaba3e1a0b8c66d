#include "transport/qp/xrc.h"

#include <bit>

namespace uroce::transport {
namespace {

void lend(Qp& qp, Srq& srq) {
  qp.cold->srq = &srq;
  qp.rx.recv_cq = srq.cq;
  qp.pd = srq.pd;
}

void add_holder(Qp& qp) {
  QpCold& cold = *qp.cold;
  Qp*& first = cold.srq->holders;
  cold.next_holder = first;
  cold.previous_holder = nullptr;
  if (first != nullptr) first->cold->previous_holder = &qp;
  first = &qp;
}

}  // namespace

bool borrow_srq(const Context& ctx, Qp& qp, const wire::Packet& packet) {
  QpCold& cold = *qp.cold;
  const uint32_t number = packet.xrceth.srqn;
  Srq* srq = ctx.xrc_srqs.find(number);
  if (srq == nullptr || srq->xrc_domain != cold.spec.xrc_domain) return false;
  if (qp.rx.message.in_progress() && number != cold.srqn) return false;
  cold.srqn = number;
  lend(qp, *srq);
  return true;
}

void return_srq(Qp& qp) {
  if (qp.rx.message.recv_in_use()) return;
  qp.cold->srq = nullptr;
  qp.rx.recv_cq = nullptr;
  qp.pd = qp.cold->spec.pd;
}

bool resume_srq(Qp& qp, Srq& srq, uint32_t place) {
  const uint64_t bit = place != 0 && place <= srq.held.size() ? uint64_t{1} << (place - 1) : 0;
  if ((place != 0 && bit == 0) || (srq.held_in_use & bit) != 0) return false;
  lend(qp, srq);
  add_holder(qp);
  srq.held_in_use |= bit;
  qp.cold->held_place = static_cast<decltype(qp.cold->held_place)>(place);
  return true;
}

void hold_srq(Qp& qp) {
  QpCold& cold = *qp.cold;
  add_holder(qp);
  Srq& srq = *cold.srq;
  const auto place = static_cast<uint32_t>(std::countr_one(srq.held_in_use));
  if (place >= srq.held.size()) return;
  srq.held_in_use |= uint64_t{1} << place;
  cold.held_place = place + 1;
}

queues::HeldRecv* held_place_of(const Qp& qp) {
  const QpCold& cold = *qp.cold;
  return cold.held_place != 0 ? &cold.srq->held[cold.held_place - 1] : cold.spec.held_recv;
}

void let_go_of_srq(Qp& qp) {
  QpCold& cold = *qp.cold;
  if (cold.next_holder != nullptr) cold.next_holder->cold->previous_holder = cold.previous_holder;
  (cold.previous_holder != nullptr ? cold.previous_holder->cold->next_holder : cold.srq->holders) = cold.next_holder;
  cold.next_holder = cold.previous_holder = nullptr;
  if (cold.held_place == 0) return;
  held_place_of(qp)->held.store(0, std::memory_order_release);
  cold.srq->held_in_use &= ~(uint64_t{1} << (cold.held_place - 1));
  cold.held_place = 0;
}

void abandon_srq(Qp& qp) {
  if (!qp.rx.message.recv_in_use() || qp.cold->srq == nullptr) return;
  let_go_of_srq(qp);
  qp.rx.message.drop_recv();
  qp.rx.message.end();
  return_srq(qp);
}

}  // namespace uroce::transport
