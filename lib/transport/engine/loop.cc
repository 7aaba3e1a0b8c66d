#include "transport/engine/loop.h"

#include <algorithm>

#include "transport/datagram/ud.h"
#include "transport/datagram/unreliable_requester.h"
#include "transport/engine/admission.h"
#include "transport/engine/receive.h"
#include "transport/rc/hello.h"
#include "transport/rc/timeout.h"
#include "transport/rc/transmit.h"

namespace uroce::transport {
namespace {

// Bounds per poll, so that no stage starves the others: doorbells taken from one ring, and bursts sent.
constexpr uint32_t kDoorbellsPerPoll = 64;
constexpr uint32_t kBurstsPerPoll = 4;
/// So few bytes per parse that a frame's payload is still in the L1 cache, from the ICRC check, when it is placed: 11 %
/// more WRITE bandwidth.
constexpr std::size_t kParseBytes = 8192;

}  // namespace

// --- Receiving ------------------------------------------------------------------------------------------------

void EngineLoop::on_frames(std::span<const RxFrame> frames, Nanos now) {
  ctx.now = now;
  while (!frames.empty()) {
    std::size_t n = 0;
    for (std::size_t bytes = 0; n < std::min(frames.size(), kParseBurst) && bytes < kParseBytes; ++n) {
      bytes += frames[n].bytes.size();
    }
    parse_burst(frames.first(n));
    frames = frames.subspan(n);
  }
}

// Parses the whole burst first, so that the QPs' cache lines arrive while the rest is parsed.
void EngineLoop::parse_burst(std::span<const RxFrame> frames) {
  std::size_t good = 0;
  const auto icrc = ctx.config.check_icrc ? wire::Icrc::check : wire::Icrc::skip;
  for (const RxFrame& frame : frames) {
    ctx.counters.rx_packets.add();
    ctx.counters.rx_bytes.add(frame.bytes.size());
    auto packet = wire::parse(frame.bytes, icrc);
    if (!packet) {
      ctx.count_drop(packet.error());
      continue;
    }
    Qp* qp = table.find(packet->bth.dest_qpn);
    if (qp != nullptr) {
      __builtin_prefetch(&qp->tx);
      __builtin_prefetch(&qp->rx);
    }
    parsed[good] = *packet;
    found[good] = qp;
    ++good;
  }
  for (std::size_t i = 0; i < good; ++i) dispatch(parsed[i], found[i]);
}

void EngineLoop::dispatch(const wire::Packet& packet, Qp* qp) {
  const wire::Drop reason = admit(ctx, gids, packet, qp);
  if (reason == wire::Drop::none) return dispatcher.apply(*qp, handle_packet(ctx, *qp, packet));
  if (qp == nullptr && packet.bth.dest_qpn == kMulticastQpn) return deliver_to_group(packet);
  ctx.count_drop(reason);
}

// 10.5: each QP in the group gets the packet as if it were for this QP alone. All engines get the packet; when there
// are no members, engine 0 counts the drop.
void EngineLoop::deliver_to_group(const wire::Packet& packet) {
  if (!vlan_matches(ctx, packet)) return ctx.count_drop(wire::Drop::vlan_mismatch);
  const auto members = groups.members(packet.destination());
  if (members.empty() && ctx.config.index == 0) ctx.count_drop(wire::Drop::qp_unknown);
  for (const MulticastGroups::Member& member : members) {
    Qp* qp = table.find(member.qpn);
    if (qp == nullptr) continue;  // another engine's
    if (const wire::Drop reason = admit(ctx, gids, packet, qp, true); reason != wire::Drop::none) {
      ctx.count_drop(reason);
    } else {
      dispatcher.apply(*qp, on_datagram(ctx, *qp, packet));
    }
  }
}

// --- The main loop --------------------------------------------------------------------------------------------

bool EngineLoop::poll(Engine& engine, FrameSink& sink, Nanos now) {
  ctx.now = now;
  last_sink = &sink;
  bool busy = take_doorbells();
  advance_timers(now);
  busy |= send_bursts(sink);
  // Tasks run after sending. An application that has seen a completion may destroy the QP in a task. Its ACK must leave
  // before, because no QP would be there to acknowledge the message when the peer sends it again.
  busy |= run_tasks(engine);
  return busy;
}

bool EngineLoop::take_doorbells() {
  return doorbells.poll(kDoorbellsPerPoll, [this](uint32_t token, uint32_t ring) {
    Qp* qp = table.find(token);
    if (qp == nullptr || qp->cold->spec.doorbell_ring != ring) {
      ctx.counters.doorbells_bad.add();
      return;
    }
    queues::DoorbellReader::clear(*qp->tx.doorbell);
    dispatcher.run_queue().push(*qp);
  });
}

void EngineLoop::advance_timers(Nanos now) {
  dispatcher.timers().advance(
      now, [this](Qp& qp) { dispatcher.apply(qp, on_ack_timer(ctx, qp)); },
      [this](Qp& qp) { dispatcher.apply(qp, on_hello_timer(qp)); },
      [this](Qp& qp) { dispatcher.run_queue().push(qp); });
}

bool EngineLoop::send_bursts(FrameSink& sink) {
  bool any = false;
  for (uint32_t burst = 0; burst < kBurstsPerPoll && !dispatcher.run_queue().empty(); ++burst) {
    ctx.builder.begin(sink.room());
    if (ctx.builder.full()) break;
    any |= build_burst();
    send_burst(sink);
  }
  return any;
}

bool EngineLoop::build_burst() {
  bool any = false;
  while (!ctx.builder.full()) {
    Qp* qp = dispatcher.run_queue().pop();
    if (qp == nullptr) break;
    dispatcher.apply(*qp, transmit(*qp));
    any = true;
  }
  return any;
}

Outcome EngineLoop::transmit(Qp& qp) {
  if (qp.type != QpType::rc) [[unlikely]]
    return transmit_unreliable(ctx, qp);
  return transmit_rc(ctx, qp);
}

void EngineLoop::send_burst(FrameSink& sink) {
  const auto frames = ctx.builder.frames();
  if (frames.empty()) return;
  for (const TxFrame& frame : frames) {
    ctx.counters.tx_bytes.add(frame.header_length + frame.payload_length + frame.pad + wire::kIcrcBytes);
  }
  ctx.counters.tx_packets.add(frames.size());
  sink.send(frames);
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
  return dispatcher.run_queue().empty() ? dispatcher.timers().next_deadline() : Nanos(0);
}

bool EngineLoop::has_work() const { return !dispatcher.run_queue().empty() || !tasks.empty() || !doorbells.empty(); }

}  // namespace uroce::transport
