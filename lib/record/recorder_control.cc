// Control's changes of a recorded engine.
#include "record/keyframe.h"
#include "record/recorder.h"
#include "transport/qp/cq_writer.h"
#include "transport/qp/srq.h"

namespace uroce::record {

using transport::Qp;
using transport::Srq;

void Recorder::begin(transport::Engine& engine) {
  engine_ = &engine;
  keyframe();
}

// Groups and rules change seldom, so a change writes all of them.
void Recorder::write_tables() {
  // A key that goes during a call opens its region until the call ends, as it may for any engine before its quiescent
  // point.
  if (const uint64_t changes = real_keys_->changes(); changes != regions_seen_) [[unlikely]] {
    regions_seen_ = changes;
    forget_regions();
    out_.put(Kind::region, kRegionsGone);
  }
  const transport::MulticastGroups& groups = engine_->groups();
  if (groups.revision() != groups_seen_) [[unlikely]] {
    groups_seen_ = groups.revision();
    out_.put(Kind::groups, 0, std::as_bytes(groups.all()));
  }
  const transport::FlowTable& flows = std::as_const(*engine_).flows();
  if (flows.revision() == flows_seen_) [[likely]]
    return;
  flows_seen_ = flows.revision();
  out_.put(Kind::flows, 0, std::span<const std::byte>(describe(flows)));
}

void Recorder::on_attach(Qp& qp) {
  write_idle();
  const transport::QpSpec& spec = qp.cold->spec;
  if (spec.srq != nullptr) use_srq(*spec.srq);
  use_cq(spec.send_cq);
  use_cq(spec.recv_cq);
  auto owned = std::make_unique<ShadowQp>();
  ShadowQp& shadow = *owned;
  qps_[&qp] = std::move(owned);
  QpRecord record = describe(qp, engine_->now());
  record.sq = ShadowRing::describe(spec.sq, qp.tx.sq.next());
  record.rq = ShadowRing::describe(spec.rq, qp.rx.rq.next());
  shadow.real_sq = spec.sq;
  shadow.real_rq = spec.rq;
  shadow.real_flag = qp.tx.doorbell;
  shadow.sq = ShadowRing(record.sq, spec.sq, Slots::send);
  shadow.rq = ShadowRing(record.rq, spec.rq, Slots::recv);
  qp.cold->spec.sq = shadow.sq.place();
  qp.cold->spec.rq = shadow.rq.place();
  qp.tx.sq = queues::RingConsumer(shadow.sq.place(), record.sq.next);
  qp.rx.rq = queues::RingConsumer(shadow.rq.place(), record.rq.next);
  qp.tx.doorbell = &shadow.flag;
  out_.put(Kind::attach, 0, record);
}

void Recorder::on_detach(Qp& qp) {
  write_idle();
  detaching_ = &qp;
  out_.put(Kind::detach, 0, ObjectRecord{.now = engine_->now(), .object = qp.qpn});
}

void Recorder::on_removed(Qp& qp) {
  const auto found = qps_.find(&qp);
  if (found == qps_.end()) return;
  if (std::exchange(detaching_, nullptr) != &qp) {
    // An import failed.
    out_.put(Kind::detach, 0, ObjectRecord{.now = engine_->now(), .object = qp.qpn});
  }
  ShadowQp& shadow = *found->second;
  give_slots(qp);
  completed_ = nullptr;
  std::erase(watched_, &qp);
  std::erase(again_, &qp);
  const uint32_t sq_next = qp.tx.sq.next();
  const uint32_t rq_next = qp.rx.rq.next();
  qp.cold->spec.sq = shadow.real_sq;
  qp.cold->spec.rq = shadow.real_rq;
  qp.tx.sq = queues::RingConsumer(shadow.real_sq, sq_next);
  qp.rx.rq = queues::RingConsumer(shadow.real_rq, rq_next);
  qp.tx.doorbell = shadow.real_flag;
  release_cq(qp.cold->spec.send_cq);
  release_cq(qp.cold->spec.recv_cq);
  qps_.erase(found);
  if (qp.cold->spec.srq != nullptr) release_srq(*qp.cold->spec.srq);
}

void Recorder::on_modify(Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route, bool loopback) {
  write_idle();
  take_sends(qp);
  take_receives(qp);
  out_.put(Kind::modify, 0,
           ModifyRecord{.now = engine_->now(),
                        .qpn = qp.qpn,
                        .attr = attr,
                        .mask = mask,
                        .has_route = route != nullptr,
                        .loopback = loopback,
                        .route = route != nullptr ? *route : wire::Route{}});
}

void Recorder::on_modified(Qp& qp) {
  give_slots(qp);
  if (shadow_of(qp).rq.give_wants_doorbell() && shadow_of(qp).rq.has_new()) again_.push_back(&qp);
  watch(qp);
}

void Recorder::on_adopt(Qp& qp, std::span<const std::byte> snapshot, std::span<const Gid> former) {
  write_idle();
  take_sends(qp);
  take_receives(qp);
  const ObjectRecord record{.now = engine_->now(), .object = qp.qpn, .count = static_cast<uint32_t>(former.size())};
  out_.put(Kind::adopt, 0, record, std::as_bytes(former), snapshot);
  watch(qp);
}

void Recorder::on_adopt_unknown(Qp& qp) {
  write_idle();
  take_sends(qp);
  take_receives(qp);
  out_.put(Kind::adopt_unknown, 0, ObjectRecord{.now = engine_->now(), .object = qp.qpn});
  watch(qp);
}

void Recorder::on_attach_ring(uint32_t id, const transport::Owner& owner) {
  write_idle();
  out_.put(Kind::attach_ring, 0, RingOwnerRecord{.now = engine_->now(), .ring = id, .owner = owner});
}

void Recorder::on_detach_ring(uint32_t id) {
  write_idle();
  out_.put(Kind::detach_ring, 0, ObjectRecord{.now = engine_->now(), .object = id});
}

void Recorder::on_attach_srq(Srq& srq) {
  write_idle();
  use_srq(srq);
  use_cq(srq.cq);
  srqs_.at(&srq)->attached = true;
  out_.put(Kind::attach_srq, 0, ObjectRecord{.now = engine_->now(), .object = srq.id});
}

void Recorder::on_detach_srq(Srq& srq) {
  write_idle();
  if (const auto found = srqs_.find(&srq); found != srqs_.end()) found->second->attached = false;
  out_.put(Kind::detach_srq, 0, ObjectRecord{.now = engine_->now(), .object = srq.id});
}

void Recorder::on_srq_detached(Srq& srq) {
  release_cq(srq.cq);
  release_srq(srq);
}

void Recorder::on_gids(std::span<const Gid> gids) {
  write_idle();
  out_.put(Kind::gids, 0, engine_->now(), std::as_bytes(gids));
}

void Recorder::on_whole_writes(bool whole) {
  write_idle();
  out_.put(Kind::whole_writes, whole ? 1 : 0, engine_->now());
}

void Recorder::on_redirect(const Gid& to, const EthAddr& mac) {
  write_idle();
  out_.put(Kind::redirect, 0, RedirectRecord{.now = engine_->now(), .to = to, .mac = mac});
}

}  // namespace uroce::record
