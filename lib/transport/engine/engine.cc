#include "transport/engine/engine.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "transport/engine/loop.h"
#include "transport/qp/error.h"
#include "transport/qp/modify.h"
#include "transport/qp/snapshot.h"

namespace uroce::transport {

Engine::Engine(const EngineConfig& config, memory::RegionTable& regions, EngineEvents& events,
               const AddressHandleTable* handles)
    : config_(config), loop_(std::make_unique<EngineLoop>(config_, counters_, regions, events, handles)) {}
Engine::~Engine() = default;

void Engine::on_frames(std::span<const RxFrame> frames, Nanos now) { loop_->on_frames(frames, now); }
void Engine::on_local_frames(std::span<const TxFrame> frames, Nanos now) { loop_->on_local_frames(frames, now); }
void Engine::on_raw_frames(std::span<const RxFrame> frames, Nanos now, FrameTakers takers) {
  loop_->on_raw_frames(frames, now, takers);
}
const FlowTable& Engine::flows() const { return loop_->flows; }
bool Engine::poll(FrameSink& sink, Nanos now) { return loop_->poll(*this, sink, now); }
Nanos Engine::next_deadline() const { return loop_->next_deadline(); }
std::size_t Engine::waiting_qps() const { return loop_->dispatcher.run_queue().waiting(); }
bool Engine::has_work() const { return loop_->has_work(); }
Traffic Engine::traffic() const { return loop_->traffic.sum(); }
Traffic Engine::traffic_of(uint16_t client) const { return loop_->traffic.of(client); }
uint32_t Engine::parked_frames() const { return loop_->ctx.frames.used(); }
void Engine::set_sleeping(bool sleeping) { loop_->doorbells.set_sleeping(sleeping); }

void Engine::run(const std::function<void(Engine&)>& work, Nanos now) {
  loop_->ctx.now = std::max(loop_->ctx.now, now);
  loop_->run_tasks(*this);
  work(*this);
}

void Engine::moderate(CqWriter& writer, uint32_t count, Nanos period) {
  writer.moderate(loop_->held_events, count, period);
}
void Engine::forget(const CqWriter& writer) { writer.forget(loop_->held_events); }

bool Engine::attach_doorbells(queues::DoorbellReader reader, uint32_t id, const Owner& owner) {
  return loop_->add_client(reader, id, owner);
}
void Engine::add_doorbells(queues::DoorbellReader reader, uint32_t id) { loop_->doorbells.add(reader, id); }
void Engine::detach_doorbells(uint32_t id) { loop_->remove_client(id); }
uint16_t Engine::client_of(uint32_t id) const { return loop_->owners.client_of(id); }
uint32_t Engine::doorbell_position(uint32_t id) const { return loop_->doorbells.position(id); }

bool Engine::attach(Qp& qp) { return loop_->add(qp); }

void Engine::detach(Qp& qp) {
  if (!loop_->remove(qp)) return;
  if (qp.type == QpType::xrc_target) abandon_srq(qp);
  static_cast<void>(end_connection(loop_->ctx, qp));  // All timers have been stopped.
}

void Engine::attach_srq(Srq& srq) { loop_->xrc_srqs.add(srq); }

void Engine::detach_srq(Srq& srq) {
  loop_->xrc_srqs.remove(srq);
  while (srq.holders != nullptr) abandon_srq(*srq.holders);
}

std::vector<std::byte> Engine::export_qp(Qp& qp, Nanos now) {
  loop_->ctx.now = std::max(loop_->ctx.now, now);
  std::vector<std::byte> snapshot = write_snapshot(loop_->ctx, qp);
  detach(qp);
  return snapshot;
}

Result<void> Engine::import_qp(Qp& qp, std::span<const std::byte> snapshot, Nanos now) {
  loop_->ctx.now = std::max(loop_->ctx.now, now);
  if (const uint32_t owner = loop_->table.engine_of(qp.qpn); owner != config_.index) {
    return fail(EBUSY, fmt::format("cannot take over QP {:#x}: its number belongs to engine {}, and this is engine {}; "
                                   "give it to engine {}",
                                   qp.qpn, owner, config_.index, owner));
  }
  if (qp.type == QpType::xrc_target) {
    return fail(EOPNOTSUPP, fmt::format("cannot take over QP {:#x}: XRC targets stay on the engine of their domain; "
                                        "make a new one",
                                        qp.qpn));
  }
  if (!loop_->add(qp)) {
    return fail(EBUSY,
                fmt::format("cannot take over QP {:#x}: engine {} has a QP of this number; detach that one first",
                            qp.qpn, config_.index));
  }
  const auto restored = read_snapshot(loop_->ctx, qp, snapshot);
  if (!restored) {
    loop_->remove(qp);
    return std::unexpected(restored.error());
  }
  loop_->routes.share(qp);
  loop_->dispatcher.apply(qp, restored->due);
  if (restored->turn_at != kNever) loop_->dispatcher.timers().resume_turn(qp, restored->turn_at);
  return {};
}

void Engine::modify(Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route, bool loopback) {
  apply_attributes(loop_->ctx, qp, attr, mask);
  if (route != nullptr) loop_->routes.set(qp, *route, loopback);
  if (mask.has(QpAttrBit::state)) loop_->dispatcher.apply(qp, apply_state(loop_->ctx, qp, attr.state));
}

QpAttr Engine::query(const Qp& qp) const { return query_attributes(qp); }
std::vector<PeerGuesses> Engine::guesses() const { return loop_->ctx.guesses.report(loop_->ctx.now); }
QpTransportStatus Engine::status(const Qp& qp) const { return query_status(qp, loop_->ctx.now); }

void Engine::redirect(const NextHop& next_hop) { loop_->routes.redirect(next_hop); }
void Engine::set_gids(std::vector<Gid> gids) { loop_->gids = std::move(gids); }

uint64_t Engine::mark_sink_payload() const {
  return loop_->last_sink != nullptr ? loop_->last_sink->mark_payload() : 0;
}

bool Engine::sink_references_payload_before(uint64_t mark) const {
  return loop_->last_sink != nullptr && loop_->last_sink->references_payload_before(mark);
}

bool Engine::join(const Gid& group, uint32_t qpn) { return loop_->groups.join(group, qpn); }
void Engine::leave(const Gid& group, uint32_t qpn) { loop_->groups.leave(group, qpn); }
void Engine::leave_all(uint32_t qpn) { loop_->groups.leave_all(qpn); }
bool Engine::add_flow(const FlowEntry& entry) { return loop_->flows.add(entry); }
void Engine::remove_flow(uint64_t id) { loop_->flows.remove(id); }

bool Engine::submit(TaskPtr task) { return loop_->tasks.push(task); }

}  // namespace uroce::transport
