#include "transport/engine/engine.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "transport/core/tape.h"
#include "transport/datagram/unreliable_requester.h"
#include "transport/qp/error.h"
#include "transport/qp/modify.h"
#include "transport/qp/snapshot.h"

namespace uroce::transport {

Engine::Engine(const EngineConfig& config, memory::RegionTable& regions, EngineEvents& events,
               const AddressHandleTable* handles)
    : config_(config),
      events_(config.tape ? config.tape->events(events) : events),
      ctx_(config_, counters_, config.tape ? config.tape->keys(regions) : regions, events_,
           config.tape ? config.tape->handles(handles) : handles, groups_, xrc_srqs_, flows_),
      gids_(config_.gids),
      dispatcher_(ctx_),
      table_(config_),
      routes_(config_.seed.plain_seed("routes")),
      tasks_(kMaxTasks),
      parsed_(kParseBurst),
      found_(kParseBurst) {
  if (config_.tape == nullptr) return;
  mode_ = Mode::taped;
  config_.tape->begin(*this);
}

void Engine::pause() {
  if (config_.tape != nullptr) config_.tape->publish();
  mode_ = Mode::paused;
}

void Engine::attach_srq(Srq& srq) {
  xrc_srqs_.add(srq);
  if (config_.tape != nullptr) config_.tape->on_attach_srq(srq);
}

void Engine::change_srq(Srq& srq, const std::function<void()>& change) {
  if (config_.tape != nullptr) config_.tape->on_srq_lent(srq);
  change();
  if (config_.tape != nullptr) config_.tape->on_srq_returned(srq);
}

void Engine::keep_writes_whole(bool whole) {
  if (config_.tape != nullptr) config_.tape->on_whole_writes(whole);
  ctx_.whole_writes = whole;
}

void Engine::set_gids(std::vector<Gid> gids) {
  if (config_.tape != nullptr) config_.tape->on_gids(gids);
  gids_ = std::move(gids);
}

void Engine::redirect(const NextHop& next_hop) {
  ctx_.forget_headers();
  if (config_.tape == nullptr) return routes_.redirect(next_hop);
  routes_.redirect([&](const Gid& to) {
    const auto mac = next_hop(to);
    if (mac) config_.tape->on_redirect(to, *mac);
    return mac;
  });
}

void Engine::run(const std::function<void(Engine&)>& work, Nanos now) {
  ctx_.now = std::max(ctx_.now, now);
  ctx_.forget_headers();
  tasks_seen_ = tasks_.size();
  run_tasks(tasks_seen_);
  work(*this);
}

void Engine::detach(Qp& qp) {
  if (table_.find(qp.qpn) != &qp) return;
  if (config_.tape != nullptr) config_.tape->on_detach(qp);
  if (!remove(qp)) return;
  if (qp.type == QpType::xrc_target) abandon_srq(qp);
  static_cast<void>(end_connection(ctx_, qp));  // All timers have been stopped.
}

void Engine::detach_srq(Srq& srq) {
  if (config_.tape != nullptr) config_.tape->on_detach_srq(srq);
  xrc_srqs_.remove(srq);
  while (srq.holders != nullptr) abandon_srq(*srq.holders);
  if (config_.tape != nullptr) config_.tape->on_srq_detached(srq);
}

std::vector<std::byte> Engine::export_qp(Qp& qp, Nanos now) {
  ctx_.now = std::max(ctx_.now, now);
  std::vector<std::byte> snapshot = write_snapshot(ctx_, qp);
  detach(qp);
  return snapshot;
}

Result<void> Engine::import_qp(Qp& qp, std::span<const std::byte> snapshot, Nanos now) {
  ctx_.now = std::max(ctx_.now, now);
  if (const uint32_t owner = table_.engine_of(qp.qpn); owner != config_.index) {
    return fail(EBUSY, fmt::format("cannot take over QP {:#x}: its number belongs to engine {}, and this is engine {}; "
                                   "give it to engine {}",
                                   qp.qpn, owner, config_.index, owner));
  }
  if (qp.type == QpType::xrc_target) {
    return fail(EOPNOTSUPP, fmt::format("cannot take over QP {:#x}: XRC targets stay on the engine of their domain; "
                                        "make a new one",
                                        qp.qpn));
  }
  if (!attach(qp)) {
    return fail(EBUSY,
                fmt::format("cannot take over QP {:#x}: engine {} has a QP of this number; detach that one first",
                            qp.qpn, config_.index));
  }
  auto restored = adopt(qp, snapshot, now);
  if (!restored) remove(qp);
  return restored;
}

void Engine::mark_steps() {
  marks_ = true;
  if (!is_paused()) mode_ = running();
}

// Frames that were built and did not leave are lost, as on the wire. Requests that complete with them do so now.
bool Engine::outlive_thread() {
  if (config_.tape != nullptr) config_.tape->on_outlived();
  pause();
  outlived_ = true;
  const Qp* const broken = ctx_.hand.held();
  for (Qp* qp : dispatcher_.sent()) {
    if (qp != broken) dispatcher_.apply(*qp, complete_sent(ctx_, *qp));
  }
  if (broken != nullptr) {
    // It may have a completion whose event is not among those that are due.
    for (CqWriter* cq : {broken->send_cq, broken->rx.recv_cq}) {
      if (cq != nullptr) cq->raise_again(ctx_.events);
    }
  }
  events_.raise_due();
  if (config_.tape != nullptr) config_.tape->publish();
  return broken != nullptr;
}

bool Engine::has_onlies() {
  return table_.any_of([](Qp& qp) {
    if (qp.type != QpType::rc) return false;
    for (uint32_t i = qp.tx.oldest; i != qp.tx.sq.next(); ++i) {
      if (qp.slot(i).as_onlies) return true;
    }
    return false;
  });
}

std::vector<std::byte> Engine::snapshot(Qp& qp, Nanos now, uint32_t version) {
  ctx_.now = std::max(ctx_.now, now);
  if (outlived_) {
    if (!marks_ || &qp == ctx_.hand.held()) return {};
    // Its doorbell or its turn may have been taken, and not been served.
    if (qp.tx.doorbell != nullptr) queues::DoorbellReader::clear(*qp.tx.doorbell);
    qp.rung = qp.on_run_queue = true;
  }
  return write_snapshot(ctx_, qp, version);
}

Result<void> Engine::adopt(Qp& qp, std::span<const std::byte> snapshot, Nanos now, std::span<const Gid> former) {
  ctx_.now = std::max(ctx_.now, now);
  ctx_.forget_headers();
  if (config_.tape != nullptr) config_.tape->on_adopt(qp, snapshot, former);
  const auto restored = read_snapshot(ctx_, qp, snapshot);
  if (!restored) return std::unexpected(restored.error());
  const auto is_source = [&qp](const auto& gids) {
    return std::ranges::find(gids, wire::source_of(*qp.route)) != gids.end();
  };
  if (qp.route != nullptr && !is_source(gids_) && !is_source(former)) {
    detach(qp);
    return fail(EINVAL, fmt::format("cannot read the snapshot for QP {:#x}: route has a source that is no address of "
                                    "this port; give the port the address back, or connect the QP again",
                                    qp.qpn));
  }
  routes_.share(qp);
  dispatcher_.apply(qp, restored->due);
  if (restored->turn_at != kNever) dispatcher_.timers().resume_turn(qp, restored->turn_at);
  return {};
}

void Engine::adopt_unknown(Qp& qp, Nanos now) {
  ctx_.now = std::max(ctx_.now, now);
  ctx_.forget_headers();
  if (config_.tape != nullptr) config_.tape->on_adopt_unknown(qp);
  resume_from_rings(ctx_, qp);
  dispatcher_.apply(qp, Outcome::fail(Failure::plain, AsyncEventType::qp_fatal));
}

void Engine::modify(Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route, bool loopback) {
  ctx_.forget_headers();
  if (config_.tape != nullptr) config_.tape->on_modify(qp, attr, mask, route, loopback);
  apply_attributes(ctx_, qp, attr, mask);
  if (route != nullptr) routes_.set(qp, *route, loopback);
  if (mask.has(QpAttrBit::state)) dispatcher_.apply(qp, apply_state(ctx_, qp, attr.state));
  if (config_.tape != nullptr) config_.tape->on_modified(qp);
}

QpAttr Engine::query(const Qp& qp) const { return query_attributes(qp); }
std::vector<PeerGuesses> Engine::guesses() const { return ctx_.guesses.report(ctx_.now); }
QpTransportStatus Engine::status(const Qp& qp) const { return query_status(qp, ctx_.now); }

uint64_t Engine::mark_sink_payload() const { return last_sink_ != nullptr ? last_sink_->mark_payload() : 0; }

bool Engine::sink_references_payload_before(uint64_t mark) const {
  return last_sink_ != nullptr && last_sink_->references_payload_before(mark);
}

}  // namespace uroce::transport
