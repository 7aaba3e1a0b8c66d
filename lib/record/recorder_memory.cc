// Shared memory before and after a call.
#include <algorithm>

#include "record/keyframe.h"
#include "record/recorder.h"
#include "transport/qp/cq_writer.h"
#include "transport/qp/srq.h"

namespace uroce::record {

using transport::Qp;
using transport::Srq;

// --- Before -----------------------------------------------------------------------------------------------------

void Recorder::meet_receiver(uint32_t qpn) {
  if (qpn == kMulticastQpn) return meet_all(QpType::ud);
  Qp* const qp = engine_->qps().find(qpn);
  if (qp != nullptr) meet(*qp);
}

void Recorder::meet(Qp& qp) {
  take_receives(qp);
  watch(qp);
}

void Recorder::meet_all(QpType type) {
  for (const auto& [qp, shadow] : qps_) {
    if (qp->type == type) meet(const_cast<Qp&>(*qp));
  }
}

void Recorder::take_sends(Qp& qp) { take_slots(Kind::sends, shadow_of(qp).sq, qp.qpn); }

void Recorder::take_receives(Qp& qp) {
  take_slots(Kind::recvs, shadow_of(qp).rq, qp.qpn);
  if (qp.cold->spec.srq != nullptr) return take_srq(*qp.cold->spec.srq);
  if (qp.type != QpType::xrc_target) return;
  // The frame may name any queue of the domain.
  for (const auto& [srq, shadow] : srqs_) {
    if (srq->xrc_domain != 0 && srq->xrc_domain == qp.cold->spec.xrc_domain) take_srq(*srq);
  }
}

void Recorder::take_srq(Srq& srq) {
  ShadowSrq& shadow = *srqs_.at(&srq);
  const uint32_t limit = shadow.real_header->limit.load(std::memory_order_acquire);
  if (limit != shadow.limit) {
    shadow.limit = limit;
    shadow.header.limit.store(limit, std::memory_order_relaxed);
    out_.put(Kind::srq_limit, 0, srq.id, limit);
  }
  take_slots(Kind::srq_recvs, shadow.ring, srq.id);
}

void Recorder::take_slots(Kind kind, ShadowRing& ring, uint32_t object) {
  if (!ring.has_new()) return;
  const SlotsRecord all = ring.take(object);
  const std::size_t most = ring.most_of_slot();
  const auto most_slots = static_cast<uint32_t>(std::max<std::size_t>(kPiece / most, 1));
  uint32_t at = all.first;
  do {
    SlotsRecord piece{.object = object, .producer = all.producer, .first = at};
    piece.slots = std::min(all.producer - at, most_slots);
    if (piece.slots < all.producer - at) piece.producer = at + piece.slots;
    std::byte* const begin = out_.start(sizeof piece + piece.slots * most);
    std::byte* to = begin != nullptr ? Writer::append(begin, piece) : nullptr;
    to = ring.copy_slots(at, at + piece.slots, to);
    at += piece.slots;
    if (to != nullptr) out_.finish(kind, 0, to);
  } while (at != all.producer);
  ring.publish_producer(all.producer);
}

// --- After ------------------------------------------------------------------------------------------------------

void Recorder::watch(Qp& qp) {
  ShadowQp& shadow = shadow_of(qp);
  if (std::exchange(shadow.listed, true)) return;
  watched_.push_back(&qp);
}

void Recorder::give_slots(const Qp& qp) {
  ShadowQp& shadow = shadow_of(qp);
  shadow.sq.give();
  shadow.rq.give();
  if (qp.cold->srq != nullptr) give_srq(*qp.cold->srq);
}

void Recorder::give_srq(const Srq& srq) {
  const auto found = srqs_.find(const_cast<Srq*>(&srq));
  if (found == srqs_.end()) return;
  ShadowSrq& shadow = *found->second;
  shadow.ring.give();
  // The limit was reached, unless the program has set another one since.
  if (shadow.limit == 0 || shadow.header.limit.load(std::memory_order_relaxed) != 0) return;
  uint32_t reached = std::exchange(shadow.limit, 0);
  shadow.real_header->limit.compare_exchange_strong(reached, 0, std::memory_order_acq_rel);
}

// The queue pair of watched_[next_watched_]. It stays there while it may have more to tell.
void Recorder::give(Qp& qp) {
  ShadowQp& shadow = shadow_of(qp);
  give_slots(qp);
  if (qp.cold->spec.srq != nullptr) give_srq(*qp.cold->spec.srq);
  if (qp.type == QpType::xrc_target) {
    for (const auto& [srq, other] : srqs_) give_srq(*srq);
  }
  // A receive may have been posted before the application could see that it must ring.
  if (shadow.rq.give_wants_doorbell() && shadow.rq.has_new()) again_.push_back(&qp);
  const bool waits = qp.state == QpState::error && shadow.rq.exists() && !shadow.rq.wants_doorbell();
  if (!shadow.sq.drained() || waits) {
    ++next_watched_;
    return;
  }
  shadow.listed = false;
  watched_[next_watched_] = watched_.back();
  watched_.pop_back();
}

void Recorder::publish() {
  for (const auto& [qp, shadow] : qps_) {
    shadow->sq.give();
    shadow->rq.give();
    if (shadow->rq.give_wants_doorbell() && shadow->rq.has_new()) again_.push_back(const_cast<Qp*>(qp));
  }
  for (const auto& [srq, shadow] : srqs_) give_srq(*srq);
}

// --- The owners of memory ---------------------------------------------------------------------------------------

void Recorder::use_cq(transport::CqWriter* cq) {
  if (cq != nullptr && ++cqs_[cq] == 1) cq->set_tape(this);
}

void Recorder::release_cq(transport::CqWriter* cq) {
  const auto found = cqs_.find(cq);
  if (found == cqs_.end() || --found->second != 0) return;
  cq->set_tape(nullptr);
  cqs_.erase(found);
}

void Recorder::write_srq(Srq& srq, ShadowSrq& shadow) {
  write_idle();
  const RingRecord ring = ShadowRing::describe(srq.ring.place(), srq.ring.next());
  shadow.ring = ShadowRing(ring, srq.ring.place(), Slots::recv);
  shadow.real_header = srq.header;
  shadow.limit = srq.header->limit.load(std::memory_order_acquire);
  shadow.header.limit.store(shadow.limit, std::memory_order_relaxed);
  srq.ring = queues::RingConsumer(shadow.ring.place(), ring.next);
  srq.header = &shadow.header;
  SrqRecord record = describe(srq, shadow.limit);
  record.ring = ring;
  out_.put(Kind::srq, 0, record);
  take_slots(Kind::srq_recvs, shadow.ring, srq.id);
}

ShadowSrq& Recorder::use_srq(Srq& srq) {
  auto& shadow = srqs_[&srq];
  if (shadow == nullptr) {
    shadow = std::make_unique<ShadowSrq>();
    write_srq(srq, *shadow);
  }
  ++shadow->users;
  return *shadow;
}

void Recorder::release_srq(Srq& srq) {
  const auto found = srqs_.find(&srq);
  if (found == srqs_.end() || --found->second->users != 0) return;
  on_srq_lent(srq);
  srqs_.erase(found);
  out_.put(Kind::srq_gone, 0, srq.id);
}

void Recorder::on_srq_lent(Srq& srq) {
  const auto found = srqs_.find(&srq);
  if (found == srqs_.end()) return;
  give_srq(srq);
  ShadowSrq& shadow = *found->second;
  srq.ring = queues::RingConsumer(shadow.ring.real(), srq.ring.next());
  srq.header = shadow.real_header;
}

void Recorder::on_srq_returned(Srq& srq) {
  if (const auto found = srqs_.find(&srq); found != srqs_.end()) write_srq(srq, *found->second);
}

}  // namespace uroce::record
