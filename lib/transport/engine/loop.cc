#include "transport/engine/engine.h"

#include <algorithm>
#include <utility>

#include "base/wr_opcodes.h"
#include "transport/core/tape.h"
#include "transport/datagram/unreliable_requester.h"
#include "transport/engine/prefetch.h"
#include "transport/qp/error.h"
#include "transport/rc/hello.h"
#include "transport/rc/timeout.h"
#include "transport/rc/transmit.h"

namespace uroce::transport {
namespace {

// Bounds per poll, so that no stage starves the others: doorbells taken of one user, work requests flushed, and bursts
// sent.
constexpr uint32_t kDoorbellsPerPoll = 64;
constexpr uint32_t kFlushesPerPoll = 32;
constexpr uint32_t kBurstsPerPoll = 4;
static_assert(Doorbells::kMaxRings < Owners::kMaxClients && Owners::kMaxClients <= FramePool::kMaxUsers);

}  // namespace

bool Engine::poll(FrameSink& sink, Nanos now) {
  ctx_.now = now;
  last_sink_ = &sink;
  // A task finds what its program posted before: doorbells are looked at after it was seen.
  const std::size_t tasks = tasks_.size();
  if (mode_ == Mode::unmarked) return run_stages<Steps::unmarked>(sink, now, tasks);
  if (mode_ == Mode::marked) return run_stages<Steps::marked>(sink, now, tasks);
  tasks_seen_ = tasks;
  if (mode_ == Mode::taped) return config_.tape->poll(sink, now);
  return run_tasks(tasks);
}

template <Steps kSteps>
inline bool Engine::run_stages(FrameSink& sink, Nanos now, std::size_t tasks) {
  // Most polls find most stages empty, and a lone message waits for them.
  bool busy = !doorbells_.quiet() && take_doorbells();
  if (dispatcher_.timers().may_end(now) || now >= held_events_.next_deadline()) advance_timers(now);
  if (!dispatcher_.flush_queue().empty()) [[unlikely]]
    busy |= flush();
  if (!dispatcher_.run_queue().empty() || owners_.shared()) busy |= send_bursts<kSteps>(sink);
  end_steps<kSteps>();
  // Tasks run after sending. An application that has seen a completion may destroy the QP in a task. Its ACK must leave
  // before, because no QP would be there to acknowledge the message when the peer sends it again.
  if (tasks != 0) busy |= run_tasks(tasks);
  return busy;
}

inline void Engine::on_doorbell(const DoorbellFrom& ring, Qp* qp) {
  owe(ring.client, work::kDoorbell);
  if (qp == nullptr || qp->tx.owner != ring.client) [[unlikely]]
    return ctx_.counters.doorbells_bad.add();
  queues::DoorbellReader::clear(*qp->tx.doorbell);
  qp->rung = true;
  // Flushing needs no room in the sink: a port may be down.
  const bool flushes = qp->state == QpState::error || qp->state == QpState::sqe;
  flushes ? dispatcher_.flush_queue().push(*qp) : dispatcher_.run_queue().push(*qp);
}

[[gnu::cold]] void Engine::hand_in(const DoorbellFrom& from, uint32_t token) { on_doorbell(from, table_.find(token)); }

bool Engine::take_doorbells() {
  // Nothing else can be fetched meanwhile.
  if (Doorbells::Ring* ring = doorbells_.lone(); ring != nullptr) {
    on_doorbell(*ring, table_.find(ring->reader.take()));
    return true;
  }
  const bool any = doorbells_.poll(kDoorbellsPerPoll, [this](uint32_t token, const Doorbells::Ring& ring) {
    if (rung_used_ == rung_.size()) take_rung();
    table_.prefetch_to_send(token);
    rung_[rung_used_++] = {token, &ring, nullptr};
  });
  if (any) take_rung();
  return any;
}

void Engine::take_rung() {
  const std::span<Rung> taken = std::span(rung_).first(std::exchange(rung_used_, 0));
  for (Rung& r : taken) {
    r.qp = table_.find(r.qpn);
    if (r.qp != nullptr) prefetch_turn(*r.qp);
  }
  for (const Rung& r : taken) on_doorbell(*r.ring, r.qp);
}

void Engine::advance_timers(Nanos now) {
  held_events_.advance(now, ctx_.events);
  dispatcher_.timers().advance(
      now,
      [this](Qp& qp) {
        ctx_.hand.take(qp);
        owe(qp.tx.owner, work::kTimer);
        dispatcher_.apply(qp, on_ack_timer(ctx_, qp));
      },
      [this](Qp& qp) {
        ctx_.hand.take(qp);
        dispatcher_.apply(qp, on_hello_timer(qp));
      },
      [this](Qp& qp) { dispatcher_.run_queue().push(qp); });
}

// A piece of what is to be flushed, in fair turns. A client sends less by as much as it has flushed.
bool Engine::flush() {
  FlushQueue& queue = dispatcher_.flush_queue();
  uint32_t left = kFlushesPerPoll;
  while (left > 0 && !queue.empty()) {
    Qp& qp = *queue.pop();
    ctx_.hand.take(qp);
    const Flushed done = flush_posted(ctx_, qp, left);
    const uint32_t work = done.work_requests * work::kFlushed;
    left -= std::max(done.work_requests, 1u);
    queue.charge(work);
    owe(qp.tx.owner, work);
    if (done.more) queue.push(qp);
    dispatcher_.apply(qp, done.out);
  }
  return left != kFlushesPerPoll;
}

inline Outcome Engine::transmit(Qp& qp) {
  if (qp.type != QpType::rc) [[unlikely]]
    return is_xrc(qp.type) ? transmit_rc(ctx_, qp) : transmit_unreliable(ctx_, qp);
  return transmit_rc(ctx_, qp);
}

template <Steps kSteps>
[[gnu::always_inline]] inline uint32_t Engine::build_burst(uint32_t left) {
  RunQueue& queue = dispatcher_.run_queue();
  do {
    Qp* qp = queue.pop();
    ctx_.hand.take<kSteps>(*qp);
    ctx_.alone = queue.empty();
    if (!sent_.is_of(qp->tx.owner)) [[unlikely]]
      change_sender(qp->tx.owner);
    ctx_.builder.begin_turn(std::min(queue.allowance(), left));
    dispatcher_.apply(*qp, transmit(*qp));
    queue.charge(ctx_.builder.work());
    left -= std::min(left, ctx_.builder.work());
  } while (!queue.empty() && !ctx_.builder.burst_full() && left > 0);
  return left;
}

void Engine::change_sender(uint16_t client) {
  sent_.change<&ClientTraffic::sent>(client, ctx_.builder.frames().size(), ctx_.builder.bytes());
}

template <Steps kSteps>
[[gnu::always_inline]] inline void Engine::send_burst(FrameSink& sink) {
  const auto frames = ctx_.builder.frames();
  sent_.finish<&ClientTraffic::sent>(frames.size(), ctx_.builder.bytes());
  ctx_.hand.drop<kSteps>();
  if (!frames.empty()) sink.send(frames);
  // Also without a frame: nothing stays in the list, because the queue pair may be destroyed next.
  for (Qp* qp : dispatcher_.sent()) {
    ctx_.hand.take<kSteps>(*qp);
    dispatcher_.apply(*qp, complete_sent(ctx_, *qp));
  }
  dispatcher_.sent().clear();
  end_steps<kSteps>();
}

template <Steps kSteps>
bool Engine::send_bursts(FrameSink& sink) {
  RunQueue& queue = dispatcher_.run_queue();
  bool any = false;
  uint32_t left = owners_.shared() ? queue.poll_allowance() : work::kUnlimited;
  for (uint32_t burst = 0; burst < kBurstsPerPoll && left > 0 && !queue.empty(); ++burst) {
    ctx_.builder.begin(sink.room());
    if (ctx_.builder.burst_full()) break;
    any = true;
    left = build_burst<kSteps>(left);
    send_burst<kSteps>(sink);
  }
  return any;
}

bool Engine::run_tasks(std::size_t count) {
  // The tape has taken doorbells before this poll counted.
  if (config_.tape != nullptr) count = std::min(count, tasks_seen_);
  if (count != 0) ctx_.forget_headers();
  for (std::size_t i = 0; i < count; ++i) (*tasks_.pop())->run(*this);
  return count != 0;
}

Nanos Engine::next_deadline() const {
  if (is_paused()) return kNever;
  const bool idle = dispatcher_.run_queue().empty() && dispatcher_.flush_queue().empty();
  return idle ? std::min(dispatcher_.timers().next_deadline(), held_events_.next_deadline()) : Nanos(0);
}

bool Engine::has_work() const {
  if (is_paused()) return !tasks_.empty();
  return !dispatcher_.run_queue().empty() || !dispatcher_.flush_queue().empty() || !tasks_.empty() ||
         !rings().empty() || (config_.tape != nullptr && config_.tape->has_work());
}

// --- Clients and their queue pairs ----------------------------------------------------------------------------

bool Engine::attach_doorbells(queues::DoorbellReader reader, uint32_t ring, const Owner& owner) {
  if (rings().full()) return false;  // before the client has a number, which a replay would not know of
  const uint16_t client = owners_.add(ring, owner);
  traffic_.add(client);
  const uint16_t user = owners_.client(client).user;
  rings().attach(reader, ring, client, user);
  if (config_.tape != nullptr) config_.tape->on_attach_ring(ring, owner);
  if (client == Owners::kOwnProcess) return true;
  dispatcher_.run_queue().set_user(client, user, owners_.weight_of(user));
  dispatcher_.flush_queue().set_user(client, user, owners_.weight_of(user));
  return true;
}

void Engine::detach_doorbells(uint32_t ring) {
  if (config_.tape != nullptr) config_.tape->on_detach_ring(ring);
  rings().detach(ring);
  owners_.remove(ring);
}

bool Engine::attach(Qp& qp) {
  ctx_.forget_headers();
  if (!table_.add(qp)) return false;
  qp.tx.owner = owners_.add_qp(qp.cold->spec.doorbell_ring);
  qp.cold->user = owners_.client(qp.tx.owner).user;
  if (config_.tape != nullptr) config_.tape->on_attach(qp);
  return true;
}

bool Engine::remove(Qp& qp) {
  ctx_.forget_headers();
  if (!table_.remove(qp)) return false;
  dispatcher_.forget(qp);
  owners_.remove_qp(qp.tx.owner);
  if (config_.tape != nullptr) config_.tape->on_removed(qp);
  return true;
}

}  // namespace uroce::transport
