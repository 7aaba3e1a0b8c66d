#include "transport/engine.h"

#include <algorithm>

#include "transport/engine_impl.h"

namespace uroce::transport {
namespace {

// Doorbells taken from one ring per poll, and bursts sent per poll: bounds, so that no one starves the rest.
constexpr uint32_t kDoorbellsPerPoll = 64;
constexpr uint32_t kBurstsPerPoll = 4;
/// Frames are placed while the L1 still holds what the ICRC read: 11 % more WRITE bandwidth.
constexpr std::size_t kParseBytes = 8192;

// IBTA vol. 1, 10.9.3: P_Keys match when their low 15 bits agree, are not 0, and one side is a full member.
bool pkeys_match(uint16_t a, uint16_t b) {
  return (a & 0x7fff) != 0 && (a & 0x7fff) == (b & 0x7fff) && ((a | b) & 0x8000) != 0;
}

// Is the frame from the QP's peer to the QP's own address? The route holds both, the other way round.
wire::Drop check_path(const Qp& qp, const wire::Packet& packet) {
  const wire::RouteTemplate& route = *qp.route;
  const std::byte* mine = route.bytes.data() + route.l3_offset;
  const std::byte* theirs = packet.frame + packet.l3_offset;
  if (packet.ip_version != route.ip_version) return wire::Drop::source_not_peer;
  const bool v4 = packet.ip_version == 4;
  const std::size_t source = v4 ? 12 : 8;
  const std::size_t size = v4 ? 4 : 16;
  if (std::memcmp(theirs + source, mine + source + size, size) != 0) return wire::Drop::source_not_peer;
  if (std::memcmp(theirs + source + size, mine + source, size) != 0) return wire::Drop::address_not_ours;
  const uint16_t vlan = packet.vlan.value_or(0) & 0xfff;
  const uint16_t own_vlan = route.l3_offset == 18 ? load_be16(route.bytes.data() + 14) & 0xfff : 0;
  return vlan == own_vlan ? wire::Drop::none : wire::Drop::vlan_mismatch;
}

// A datagram may come from anywhere, but must be for an address of this port.
wire::Drop check_destination(const EngineCore& core, const wire::Packet& packet) {
  if ((packet.vlan.value_or(0) & 0xfff) != core.config.vlan) return wire::Drop::vlan_mismatch;
  const bool ours = std::ranges::find(core.gids, packet.destination()) != core.gids.end();
  return ours ? wire::Drop::none : wire::Drop::address_not_ours;
}

wire::Transport transport_for(QpType type) {
  switch (type) {
    case QpType::uc: return wire::Transport::uc;
    case QpType::ud: return wire::Transport::ud;
    default: return wire::Transport::rc;
  }
}

bool is_spoken_by(QpType type, wire::Opcode opcode) {
  const wire::Transport transport = wire::transport_of(opcode);
  if (transport == transport_for(type)) return true;
  return type == QpType::rc && (transport == wire::Transport::manufacturer || transport == wire::Transport::cnp);
}

constexpr uint8_t kCongestionExperienced = 3;

}  // namespace

Engine::Engine(const EngineConfig& config, memory::RegionTable& regions, EngineEvents& events,
               const AddressHandleTable* handles)
    : config_(config) {
  impl_ = std::make_unique<Impl>(config_, counters_, regions, events, handles);
}
Engine::~Engine() = default;

// --- Receiving ------------------------------------------------------------------------------------------------

wire::Drop Engine::Impl::admit(const wire::Packet& packet, const Qp* qp, bool to_group) const {
  if (qp == nullptr) return wire::Drop::qp_unknown;
  // A packet of another transport is dropped without an answer (9.6.1.3).
  if (!is_spoken_by(qp->type, packet.bth.opcode)) return wire::Drop::opcode_mismatch;
  if (qp->state == QpState::reset || qp->state == QpState::init || qp->state == QpState::error) {
    return wire::Drop::qp_state;
  }
  if (!pkeys_match(packet.bth.pkey, qp->pkey)) return wire::Drop::pkey;
  if (qp->type != QpType::ud) return check_path(*qp, packet);
  return to_group ? wire::Drop::none : check_destination(core, packet);
}

void Engine::Impl::dispatch(const wire::Packet& packet, Qp* qp) {
  if (const wire::Drop reason = admit(packet, qp); reason != wire::Drop::none) {
    if (qp == nullptr && packet.bth.dest_qpn == kMulticastQpn) return deliver_to_group(packet);
    core.count_drop(reason);
    return;
  }
  if (qp->type != QpType::rc) [[unlikely]] {
    return qp->type == QpType::uc ? on_uc_request(core, *qp, packet) : on_datagram(core, *qp, packet);
  }
  if (packet.ecn == kCongestionExperienced && packet.op().flags.has(wire::Op::payload)) [[unlikely]]
    on_mark(core, *qp);
  if (packet.op().flags.has(wire::Op::request)) return on_request(core, *qp, packet);
  if (packet.bth.opcode == wire::Opcode::hello) return on_hello(core, *qp, packet);
  if (qp->state != QpState::rts && qp->state != QpState::sqd) {
    core.count_drop(wire::Drop::qp_state);
    return;
  }
  switch (packet.bth.opcode) {
    case wire::Opcode::rc_ack: on_ack(core, *qp, packet); break;
    case wire::Opcode::sack: on_sack(core, *qp, packet); break;
    case wire::Opcode::cnp: on_cnp(core, *qp); break;
    case wire::Opcode::rc_atomic_ack: on_atomic_ack(core, *qp, packet); break;
    default: on_read_response(core, *qp, packet); break;
  }
}

// 10.5: each QP in the group gets the packet as if it were its alone. All engines see it; the first speaks for them.
void Engine::Impl::deliver_to_group(const wire::Packet& packet) {
  if ((packet.vlan.value_or(0) & 0xfff) != core.config.vlan) return core.count_drop(wire::Drop::vlan_mismatch);
  const auto members = core.groups.members(packet.destination());
  if (members.empty() && core.config.index == 0) core.count_drop(wire::Drop::qp_unknown);
  for (const MulticastGroups::Member& member : members) {
    Qp* qp = find(member.qpn);
    if (qp == nullptr) continue;  // another engine's
    if (const wire::Drop reason = admit(packet, qp, true); reason != wire::Drop::none) {
      core.count_drop(reason);
    } else {
      on_datagram(core, *qp, packet);
    }
  }
}

// Parses the whole burst first, so that the QPs' cache lines arrive while the rest is parsed.
void Engine::Impl::parse_burst(std::span<const RxFrame> frames) {
  std::size_t good = 0;
  const auto icrc = core.config.check_icrc ? wire::Icrc::check : wire::Icrc::skip;
  for (const RxFrame& frame : frames) {
    core.counters.rx_packets.add();
    core.counters.rx_bytes.add(frame.bytes.size());
    auto packet = wire::parse(frame.bytes, icrc);
    if (!packet) {
      core.count_drop(packet.error());
      continue;
    }
    Qp* qp = find(packet->bth.dest_qpn);
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

void Engine::on_frames(std::span<const RxFrame> frames, Nanos now) {
  impl_->core.now = now;
  while (!frames.empty()) {
    std::size_t n = 0;
    for (std::size_t bytes = 0; n < std::min(frames.size(), kParseBurst) && bytes < kParseBytes; ++n) {
      bytes += frames[n].bytes.size();
    }
    impl_->parse_burst(frames.first(n));
    frames = frames.subspan(n);
  }
}

// --- The main loop --------------------------------------------------------------------------------------------

bool Engine::poll(FrameSink& sink, Nanos now) {
  Impl& impl = *impl_;
  impl.core.now = now;
  impl.last_sink = &sink;
  bool busy = impl.take_doorbells();
  impl.core.wheel.advance(now, [&](TimerNode& node) {
    Qp& qp = *static_cast<Qp*>(node.owner);
    if (qp.tx.recovery != nullptr && &node == &qp.tx.recovery->hello_timer) return on_hello_timer(impl.core, qp);
    qp.timer_pending = false;
    on_timer(impl.core, qp);
  });
  impl.core.pacing_wheel.advance(now, [&](TimerNode& node) { impl.core.activate(*static_cast<Qp*>(node.owner)); });
  busy |= impl.send_bursts(sink);
  // After sending: an application that has seen a completion may end the QP before its ACK has left, and nobody would
  // acknowledge the message when the peer sends it again.
  busy |= impl.run_tasks(*this);
  return busy;
}

bool Engine::Impl::run_tasks(Engine& engine) {
  bool any = false;
  while (auto task = tasks.pop()) {
    (*task)->run(engine);
    any = true;
  }
  return any;
}

bool Engine::Impl::take_doorbells() {
  bool any = false;
  for (Ring& ring : doorbells) {
    for (uint32_t left = kDoorbellsPerPoll; left > 0; --left) {
      const uint32_t token = ring.reader.take();
      if (token == 0) break;
      any = true;
      Qp* qp = find(token);
      if (qp == nullptr || qp->cold->spec.doorbell_ring != ring.id) {
        core.counters.doorbells_bad.add();
        continue;
      }
      queues::DoorbellReader::clear(*qp->tx.doorbell);
      core.activate(*qp);
    }
  }
  return any;
}

bool Engine::Impl::send_bursts(FrameSink& sink) {
  bool any = false;
  for (uint32_t burst = 0; burst < kBurstsPerPoll && core.active_head != nullptr; ++burst) {
    core.builder.begin(sink.room());
    if (core.builder.full()) break;
    while (!core.builder.full()) {
      Qp* qp = core.pop_active();
      if (qp == nullptr) break;
      if (transmit(*qp)) core.activate(*qp);
      any = true;
    }
    const auto frames = core.builder.frames();
    if (frames.empty()) continue;
    for (const TxFrame& frame : frames) {
      core.counters.tx_bytes.add(frame.header_length + frame.payload_length + frame.pad + wire::kIcrcBytes);
    }
    core.counters.tx_packets.add(frames.size());
    sink.send(frames);
    for (Qp* qp : core.sent) complete_sent(core, *qp);
    core.sent.clear();
  }
  return any;
}

bool Engine::Impl::transmit(Qp& qp) {
  if (qp.type != QpType::rc) [[unlikely]]
    return transmit_unreliable(core, qp);
  if (qp.tx.notices != 0 && !send_notices(core, qp)) [[unlikely]]
    return true;
  if (qp.paced) [[unlikely]]
    return transmit_paced(core, qp);
  return transmit_responses(core, qp) || transmit_requests(core, qp);
}

Nanos Engine::next_deadline() const {
  const EngineCore& core = impl_->core;
  if (core.active_head != nullptr) return Nanos(0);
  return std::min(core.wheel.next_deadline(), core.pacing_wheel.next_deadline());
}

bool Engine::has_work() const {
  if (impl_->core.active_head != nullptr || !impl_->tasks.empty()) return true;
  return std::ranges::any_of(impl_->doorbells, [](const Impl::Ring& ring) { return !ring.reader.empty(); });
}

void Engine::set_sleeping(bool sleeping) {
  for (auto& ring : impl_->doorbells) ring.reader.set_sleeping(sleeping);
}

}  // namespace uroce::transport
