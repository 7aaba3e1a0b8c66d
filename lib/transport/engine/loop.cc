#include "transport/engine/loop.h"

#include <algorithm>
#include <utility>

#include "base/wr_opcodes.h"
#include "transport/datagram/unreliable_requester.h"
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

uint64_t bytes_of(std::span<const TxFrame> frames) {
  uint64_t bytes = frames.size() * wire::kIcrcBytes;
  for (const TxFrame& frame : frames) {
    bytes += frame.header_length + frame.payload_length + frame.pad;
    if (frame.raw) [[unlikely]]
      bytes -= wire::kIcrcBytes;
  }
  return bytes;
}

}  // namespace

bool EngineLoop::poll(Engine& engine, FrameSink& sink, Nanos now) {
  ctx.now = now;
  last_sink = &sink;
  bool busy = take_doorbells();
  advance_timers(now);
  if (!dispatcher.flush_queue().empty()) busy |= flush();
  busy |= send_bursts(sink);
  // Tasks run after sending. An application that has seen a completion may destroy the QP in a task. Its ACK must leave
  // before, because no QP would be there to acknowledge the message when the peer sends it again.
  busy |= run_tasks(engine);
  return busy;
}

bool EngineLoop::take_doorbells() {
  const bool any = doorbells.poll(kDoorbellsPerPoll, [this](uint32_t token, const Doorbells::Ring& ring) {
    if (rung_used_ == rung_.size()) take_rung();
    table.prefetch(token);
    rung_[rung_used_++] = {token, &ring, nullptr};
  });
  if (any) take_rung();
  return any;
}

void EngineLoop::take_rung() {
  const std::span<Rung> taken = std::span(rung_).first(std::exchange(rung_used_, 0));
  for (Rung& r : taken) {
    r.qp = table.find(r.qpn);
    if (r.qp != nullptr) prefetch_turn(*r.qp);
  }
  for (const auto& [qpn, ring, qp] : taken) {
    owe(ring->client, work::kDoorbell);
    if (qp == nullptr || qp->cold->doorbell_ring != ring->id) {
      ctx.counters.doorbells_bad.add();
      continue;
    }
    queues::DoorbellReader::clear(*qp->tx.doorbell);
    qp->rung = true;
    // Flushing needs no room in the sink: a port may be down.
    const bool flushes = qp->state == QpState::error || qp->state == QpState::sqe;
    flushes ? dispatcher.flush_queue().push(*qp) : dispatcher.run_queue().push(*qp);
  }
}

void EngineLoop::advance_timers(Nanos now) {
  held_events.advance(now, ctx.events);
  dispatcher.timers().advance(
      now,
      [this](Qp& qp) {
        owe(qp.tx.owner, work::kTimer);
        dispatcher.apply(qp, on_ack_timer(ctx, qp));
      },
      [this](Qp& qp) { dispatcher.apply(qp, on_hello_timer(qp)); },
      [this](Qp& qp) { dispatcher.run_queue().push(qp); });
}

// A piece of what is to be flushed, in fair turns. A client sends less by as much as it has flushed.
bool EngineLoop::flush() {
  FlushQueue& queue = dispatcher.flush_queue();
  uint32_t left = kFlushesPerPoll;
  while (left > 0 && !queue.empty()) {
    Qp& qp = *queue.pop();
    const Flushed done = flush_posted(ctx, qp, left);
    const uint32_t work = done.work_requests * work::kFlushed;
    left -= std::max(done.work_requests, 1u);
    queue.charge(work);
    owe(qp.tx.owner, work);
    if (done.more) queue.push(qp);
    dispatcher.apply(qp, done.out);
  }
  return left != kFlushesPerPoll;
}

bool EngineLoop::send_bursts(FrameSink& sink) {
  RunQueue& queue = dispatcher.run_queue();
  bool any = false;
  uint32_t left = owners.shared() ? queue.poll_allowance() : work::kUnlimited;
  for (uint32_t burst = 0; burst < kBurstsPerPoll && left > 0 && !queue.empty(); ++burst) {
    ctx.builder.begin(sink.room());
    if (ctx.builder.burst_full()) break;
    any = true;
    left = build_burst(left);
    send_burst(sink);
  }
  return any;
}

uint32_t EngineLoop::build_burst(uint32_t left) {
  RunQueue& queue = dispatcher.run_queue();
  while (!ctx.builder.burst_full() && left > 0) {
    Qp* qp = queue.pop();
    if (qp == nullptr) break;
    ctx.alone = queue.empty();
    if (!sent_.is_of(qp->tx.owner)) [[unlikely]]
      change_sender(qp->tx.owner);
    ctx.builder.begin_turn(std::min(queue.allowance(), left));
    dispatcher.apply(*qp, transmit(*qp));
    queue.charge(ctx.builder.work());
    left -= std::min(left, ctx.builder.work());
  }
  return left;
}

Outcome EngineLoop::transmit(Qp& qp) {
  if (qp.type != QpType::rc) [[unlikely]]
    return is_xrc(qp.type) ? transmit_rc(ctx, qp) : transmit_unreliable(ctx, qp);
  return transmit_rc(ctx, qp);
}

// A frame is looked at once, however often the burst's client changes.
uint64_t EngineLoop::bytes_sent(std::span<const TxFrame> burst) const {
  return sent_.bytes() + bytes_of(burst.subspan(sent_.packets()));
}

void EngineLoop::change_sender(uint16_t client) {
  const auto frames = ctx.builder.frames();
  sent_.change<&ClientTraffic::sent>(client, frames.size(), bytes_sent(frames));
}

void EngineLoop::send_burst(FrameSink& sink) {
  const auto frames = ctx.builder.frames();
  sent_.finish<&ClientTraffic::sent>(frames.size(), bytes_sent(frames));
  if (!frames.empty()) sink.send(frames);
  // Also without a frame: nothing stays in the list, because the queue pair may be destroyed next.
  for (Qp* qp : dispatcher.sent()) dispatcher.apply(*qp, complete_sent(ctx, *qp));
  dispatcher.sent().clear();
}

bool EngineLoop::run_tasks(Engine& engine) {
  bool any = false;
  while (auto task = tasks.pop()) {
    (*task)->run(engine);
    any = true;
  }
  return any;
}

Nanos EngineLoop::next_deadline() const {
  const bool idle = dispatcher.run_queue().empty() && dispatcher.flush_queue().empty();
  return idle ? std::min(dispatcher.timers().next_deadline(), held_events.next_deadline()) : Nanos(0);
}

bool EngineLoop::has_work() const {
  return !dispatcher.run_queue().empty() || !dispatcher.flush_queue().empty() || !tasks.empty() || !doorbells.empty();
}

// --- Clients and their queue pairs ----------------------------------------------------------------------------

bool EngineLoop::add_client(queues::DoorbellReader reader, uint32_t ring, const Owner& owner) {
  const uint16_t client = owners.add(ring, owner);
  traffic.add(client);
  const uint16_t user = owners.client(client).user;
  if (!doorbells.attach(reader, ring, client, user)) {
    owners.remove(ring);
    return false;
  }
  if (client == Owners::kOwnProcess) return true;
  dispatcher.run_queue().set_user(client, user, owners.weight_of(user));
  dispatcher.flush_queue().set_user(client, user, owners.weight_of(user));
  return true;
}

void EngineLoop::remove_client(uint32_t ring) {
  doorbells.detach(ring);
  owners.remove(ring);
}

bool EngineLoop::add(Qp& qp) {
  if (!table.add(qp)) return false;
  qp.tx.owner = owners.add_qp(qp.cold->spec.doorbell_ring);
  qp.cold->user = owners.client(qp.tx.owner).user;
  return true;
}

bool EngineLoop::remove(Qp& qp) {
  if (!table.remove(qp)) return false;
  dispatcher.forget(qp);
  owners.remove_qp(qp.tx.owner);
  return true;
}

}  // namespace uroce::transport
