// The engine between bursts: what control tasks do to it.
#include <algorithm>

#include "transport/engine_impl.h"

namespace uroce::transport {
namespace {

void describe_recovery(const Recovery& r, bool selective, QpTransportStatus& status) {
  const auto resent = [&](Cause cause) { return r.retransmissions[static_cast<std::size_t>(cause)]; };
  const bool asking = r.epoch != 0 && (r.hellos_left > 0 || r.asks_for_ever);
  status.recovery = selective ? Retransmission::selective
                    : asking  ? Retransmission::automatic
                              : Retransmission::go_back_n;
  if (r.rtt.known()) status.srtt = r.rtt.smoothed();
  status.retransmitted = {.fast = resent(Cause::hole),
                          .probe = resent(Cause::probe),
                          .timeout = resent(Cause::timeout),
                          .nak = resent(Cause::nak)};
  status.parked = r.parked_count;
}

}  // namespace

void Engine::attach_doorbells(queues::DoorbellReader reader, uint32_t id) {
  if (impl_->doorbells.size() < kMaxDoorbellRings) impl_->doorbells.push_back({id, reader});
}

void Engine::detach_doorbells(uint32_t id) {
  std::erase_if(impl_->doorbells, [id](const Impl::Ring& ring) { return ring.id == id; });
}

bool Engine::attach(Qp& qp) {
  const uint32_t bits = config_.index_bits;
  if ((qp.qpn & ((1u << bits) - 1)) != config_.index || qp.qpn > Psn::kMask) return false;
  Qp*& slot = impl_->slot_of(qp.qpn);
  if (slot != nullptr) return false;
  slot = &qp;
  return true;
}

void Engine::detach(Qp& qp) {
  if (impl_->find(qp.qpn) != &qp) return;
  impl_->slot_of(qp.qpn) = nullptr;
  end_recovery(impl_->core, qp);
  impl_->core.forget_active(qp);
  impl_->core.wheel.cancel(qp.cold->timer);
  deregulate(impl_->core, qp);
  qp.timer_pending = false;
}

void Engine::set_gids(std::vector<Gid> gids) { impl_->core.gids = std::move(gids); }

bool Engine::join(const Gid& group, uint32_t qpn) { return impl_->core.groups.join(group, qpn); }
void Engine::leave(const Gid& group, uint32_t qpn) { impl_->core.groups.leave(group, qpn); }
void Engine::leave_all(uint32_t qpn) { impl_->core.groups.leave_all(qpn); }

void EngineCore::forget_active(Qp& gone) {
  if (!gone.on_active_list) return;
  Qp* before = nullptr;
  for (Qp* qp = active_head; qp != nullptr; before = qp, qp = qp->tx.next_active) {
    if (qp != &gone) continue;
    (before != nullptr ? before->tx.next_active : active_head) = gone.tx.next_active;
    if (active_tail == &gone) active_tail = before;
    break;
  }
  gone.on_active_list = false;
  gone.tx.next_active = nullptr;
}

void Engine::run(const std::function<void(Engine&)>& work, Nanos now) {
  impl_->core.now = std::max(impl_->core.now, now);
  impl_->run_tasks(*this);
  work(*this);
}

uint32_t Engine::parked_frames() const { return impl_->core.parking.used(); }

bool Engine::submit(TaskPtr task) { return impl_->tasks.push(task); }

uint64_t Engine::mark_sink_payload() const {
  return impl_->last_sink != nullptr ? impl_->last_sink->mark_payload() : 0;
}

bool Engine::sink_references_payload_before(uint64_t mark) const {
  return impl_->last_sink != nullptr && impl_->last_sink->references_payload_before(mark);
}

void Engine::Impl::apply_route(Qp& qp, wire::Route route, bool loopback) {
  if (qp.ecn != 0) route.traffic_class &= 0xfc;  // data packets set the field, others must not
  const wire::RouteTemplate wanted = wire::make_template(route);
  std::shared_ptr<wire::RouteTemplate> shared;
  std::erase_if(routes, [](const auto& known) { return known.expired(); });
  for (const auto& known : routes) {
    auto candidate = known.lock();
    if (candidate->length == wanted.length && candidate->bytes == wanted.bytes) shared = candidate;
  }
  if (shared == nullptr) {
    shared = std::make_shared<wire::RouteTemplate>(wanted);
    routes.push_back(shared);
  }
  qp.cold->route = shared;
  qp.route = shared.get();
  qp.loopback = loopback;
}

void Engine::redirect(const NextHop& next_hop) {
  for (const auto& known : impl_->routes) {
    const auto route = known.lock();
    if (route == nullptr) continue;
    if (const auto mac = next_hop(wire::destination_of(*route))) wire::set_dst_mac(route->bytes.data(), *mac);
  }
}

namespace {

void set_send_psn(Qp& qp, Psn psn) {
  qp.tx.una = qp.tx.acked = qp.tx.next = qp.tx.sent = psn;
  if (Recovery* r = qp.tx.recovery; r != nullptr) r->highest = r->horizon = r->asked_until = psn;
}

}  // namespace

void Engine::Impl::apply(Qp& qp, const QpAttr& attr, QpAttrMask mask) {
  QpAttr& now = qp.cold->attr;
  const auto set = [&](QpAttrBit bit, auto QpAttr::* member) {
    if (mask.has(bit)) now.*member = attr.*member;
  };
  set(QpAttrBit::en_sqd_async_notify, &QpAttr::en_sqd_async_notify);
  set(QpAttrBit::access_flags, &QpAttr::access);
  set(QpAttrBit::pkey_index, &QpAttr::pkey_index);
  set(QpAttrBit::port, &QpAttr::port);
  set(QpAttrBit::qkey, &QpAttr::qkey);
  set(QpAttrBit::av, &QpAttr::av);
  set(QpAttrBit::path_mtu, &QpAttr::path_mtu);
  set(QpAttrBit::timeout, &QpAttr::timeout);
  set(QpAttrBit::retry_cnt, &QpAttr::retry_cnt);
  set(QpAttrBit::rnr_retry, &QpAttr::rnr_retry);
  set(QpAttrBit::max_rd_atomic, &QpAttr::max_rd_atomic);
  set(QpAttrBit::min_rnr_timer, &QpAttr::min_rnr_timer);
  set(QpAttrBit::max_dest_rd_atomic, &QpAttr::max_dest_rd_atomic);
  set(QpAttrBit::dest_qpn, &QpAttr::dest_qpn);
  if (mask.has(QpAttrBit::rq_psn)) qp.rx.expected = Psn(attr.rq_psn);
  if (mask.has(QpAttrBit::sq_psn)) set_send_psn(qp, Psn(attr.sq_psn));
  qp.pkey = core.config.pkey;
  qp.access = now.access;
  qp.dest_qpn = now.dest_qpn;
  // A datagram has the port's MTU, as it has no path of its own (10.2.2.2).
  const Mtu mtu = qp.type == QpType::ud ? core.config.port_mtu : now.path_mtu;
  qp.mtu_shift = static_cast<uint8_t>(7 + static_cast<uint32_t>(mtu));
  qp.timeout = now.timeout;
  qp.retry_cnt = now.retry_cnt;
  qp.rnr_retry = now.rnr_retry;
  qp.min_rnr_timer = now.min_rnr_timer;
  qp.max_rd_atomic = now.max_rd_atomic;
  if (mask.has(QpAttrBit::max_dest_rd_atomic)) {
    qp.cold->resources.assign(now.max_dest_rd_atomic, Resource{});
    qp.cold->resource_next = 0;
    // Room for every original, and as many duplicates again.
    qp.cold->jobs.assign(std::bit_ceil(2u * now.max_dest_rd_atomic + 2), ResponseJob{});
  }
  if (mask.has(QpAttrBit::path_mtu)) regulate(core, qp);
  if (qp.tx.recovery != nullptr) update_window(core, qp);
  qp.tx.retries_left = qp.retry_cnt;
  qp.tx.rnr_retries_left = qp.rnr_retry;
  qp.udp_source = wire::udp_source_port(now.av.flow_label, qp.qpn, qp.dest_qpn);
}

void Engine::Impl::to_state(Qp& qp, QpState state) {
  switch (state) {
    case QpState::reset:
      end_recovery(core, qp);
      deregulate(core, qp);
      reset_qp(qp);
      return;
    case QpState::rtr:
      qp.state = state;
      if (qp.type == QpType::rc) begin_recovery(core, qp);
      return;
    case QpState::error: enter_error(core, qp); return;
    case QpState::sqd:
      qp.state = state;
      qp.cold->sq_drained_reported = false;
      ask_for_ack(core, qp);
      check_drained(core, qp);
      return;
    default:
      qp.state = state;
      // Work requests may have waited for this; without any there is nothing to wake up for.
      if (state == QpState::rts && (qp.tx.cursor != qp.tx.sq.next() || qp.tx.sq.available() != 0)) core.activate(qp);
      return;
  }
}

void Engine::modify(Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route, bool loopback) {
  impl_->apply(qp, attr, mask);
  if (route != nullptr) impl_->apply_route(qp, *route, loopback);
  if (mask.has(QpAttrBit::state)) impl_->to_state(qp, attr.state);
}

QpTransportStatus Engine::status(const Qp& qp) const {
  const QpCold& cold = *qp.cold;
  QpTransportStatus status;
  status.congestion = cold.algorithm;
  status.window = qp.tx.window;
  status.cnps_sent = cold.notification.cnps_sent;
  status.cnps_received = cold.notification.cnps_received;
  if (cold.recovery != nullptr) describe_recovery(*cold.recovery, qp.tx.selective, status);
  if (cold.congestion == nullptr) return status;
  cold.congestion->on_timer(impl_->core.now);
  status.rate_bps = cold.congestion->rate();
  status.window = std::min(status.window, cold.congestion->window());
  return status;
}

QpAttr Engine::query(const Qp& qp) const {
  QpAttr attr = qp.cold->attr;
  attr.state = attr.cur_state = qp.state;
  attr.sq_psn = qp.tx.next.value();
  attr.rq_psn = qp.rx.expected.value();
  return attr;
}

}  // namespace uroce::transport
