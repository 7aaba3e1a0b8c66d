#include "transport/engine.h"

#include <algorithm>

#include "transport/engine_core.h"

namespace uroce::transport {
namespace {

constexpr std::size_t kMaxTasks = 1024;
constexpr std::size_t kMaxDoorbellRings = 1024;
// Doorbells taken from one ring per poll, and bursts sent per poll: bounds, so that no one starves the rest.
constexpr uint32_t kDoorbellsPerPoll = 64;
constexpr uint32_t kBurstsPerPoll = 4;
constexpr std::size_t kParseBurst = 32;
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

}  // namespace

struct Engine::Impl {
  Impl(const EngineConfig& config, EngineCounters& counters, memory::RegionTable& regions, EngineEvents& events)
      : core(config, counters, regions, events),
        table(config.max_qps),
        tasks(kMaxTasks),
        parsed(kParseBurst),
        found(kParseBurst) {
    doorbells.reserve(kMaxDoorbellRings);
  }

  struct Ring {
    uint32_t id;
    queues::DoorbellReader reader;
  };

  Qp* find(uint32_t qpn) {
    const uint32_t bits = core.config.index_bits;
    Qp* qp = table[(qpn >> bits) & (core.config.max_qps - 1)];
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  void parse_burst(std::span<const RxFrame> frames);
  void dispatch(const wire::Packet& packet, Qp* qp);
  wire::Drop admit(const wire::Packet& packet, const Qp* qp) const;
  bool run_tasks(Engine& engine);
  bool take_doorbells();
  bool send_bursts(FrameSink& sink);
  void apply(Qp& qp, const QpAttr& attr, QpAttrMask mask);
  void to_state(Qp& qp, QpState state);
  void apply_route(Qp& qp, const wire::Route& route, bool loopback);

  EngineCore core;
  std::vector<Qp*> table;
  SpscRing<TaskPtr> tasks;
  std::vector<Ring> doorbells;
  std::vector<wire::Packet> parsed;
  std::vector<Qp*> found;
  std::vector<std::weak_ptr<const wire::RouteTemplate>> routes;
  FrameSink* last_sink = nullptr;
};

Engine::Engine(const EngineConfig& config, memory::RegionTable& regions, EngineEvents& events) : config_(config) {
  impl_ = std::make_unique<Impl>(config_, counters_, regions, events);
}
Engine::~Engine() = default;

// --- Receiving ------------------------------------------------------------------------------------------------

wire::Drop Engine::Impl::admit(const wire::Packet& packet, const Qp* qp) const {
  if (qp == nullptr) return wire::Drop::qp_unknown;
  // A packet of another transport is dropped without an answer (9.6.1.3).
  if (wire::transport_of(packet.bth.opcode) != wire::Transport::rc) return wire::Drop::opcode_mismatch;
  if (qp->state == QpState::reset || qp->state == QpState::init || qp->state == QpState::error) {
    return wire::Drop::qp_state;
  }
  if (!pkeys_match(packet.bth.pkey, qp->pkey)) return wire::Drop::pkey;
  return check_path(*qp, packet);
}

void Engine::Impl::dispatch(const wire::Packet& packet, Qp* qp) {
  if (const wire::Drop reason = admit(packet, qp); reason != wire::Drop::none) {
    core.count_drop(reason);
    return;
  }
  if (packet.op().flags.has(wire::Op::request)) {
    on_request(core, *qp, packet);
    return;
  }
  if (qp->state != QpState::rts && qp->state != QpState::sqd) {
    core.count_drop(wire::Drop::qp_state);
    return;
  }
  switch (packet.bth.opcode) {
    case wire::Opcode::rc_ack: on_ack(core, *qp, packet); break;
    case wire::Opcode::rc_atomic_ack: on_atomic_ack(core, *qp, packet); break;
    default: on_read_response(core, *qp, packet); break;
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
  bool busy = impl.run_tasks(*this);
  busy |= impl.take_doorbells();
  impl.core.wheel.advance(now, [&](TimerNode& node) {
    Qp& qp = *static_cast<Qp*>(node.owner);
    qp.timer_pending = false;
    on_timer(impl.core, qp);
  });
  busy |= impl.send_bursts(sink);
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
      if (transmit_responses(core, *qp) || transmit_requests(core, *qp)) core.activate(*qp);
      any = true;
    }
    const auto frames = core.builder.frames();
    if (frames.empty()) continue;
    for (const TxFrame& frame : frames) {
      core.counters.tx_bytes.add(frame.header_length + frame.payload_length + frame.pad + wire::kIcrcBytes);
    }
    core.counters.tx_packets.add(frames.size());
    sink.send(frames);
  }
  return any;
}

Nanos Engine::next_deadline() const {
  return impl_->core.active_head != nullptr ? Nanos(0) : impl_->core.wheel.next_deadline();
}

bool Engine::has_work() const {
  if (impl_->core.active_head != nullptr || !impl_->tasks.empty()) return true;
  return std::ranges::any_of(impl_->doorbells, [](const Impl::Ring& ring) { return !ring.reader.empty(); });
}

void Engine::set_sleeping(bool sleeping) {
  for (auto& ring : impl_->doorbells) ring.reader.set_sleeping(sleeping);
}

// --- Control ---------------------------------------------------------------------------------------------------

void Engine::attach_doorbells(queues::DoorbellReader reader, uint32_t id) {
  if (impl_->doorbells.size() < kMaxDoorbellRings) impl_->doorbells.push_back({id, reader});
}

void Engine::detach_doorbells(uint32_t id) {
  std::erase_if(impl_->doorbells, [id](const Impl::Ring& ring) { return ring.id == id; });
}

bool Engine::attach(Qp& qp) {
  const uint32_t bits = config_.index_bits;
  if ((qp.qpn & ((1u << bits) - 1)) != config_.index || qp.qpn > Psn::kMask) return false;
  Qp*& slot = impl_->table[(qp.qpn >> bits) & (config_.max_qps - 1)];
  if (slot != nullptr) return false;
  slot = &qp;
  return true;
}

void Engine::detach(Qp& qp) {
  if (impl_->find(qp.qpn) != &qp) return;
  impl_->table[(qp.qpn >> config_.index_bits) & (config_.max_qps - 1)] = nullptr;
  impl_->core.forget_active(qp);
  impl_->core.wheel.cancel(qp.cold->timer);
  qp.timer_pending = false;
}

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

bool Engine::submit(TaskPtr task) { return impl_->tasks.push(task); }

uint64_t Engine::mark_sink_payload() const {
  return impl_->last_sink != nullptr ? impl_->last_sink->mark_payload() : 0;
}

bool Engine::sink_references_payload_before(uint64_t mark) const {
  return impl_->last_sink != nullptr && impl_->last_sink->references_payload_before(mark);
}

void Engine::Impl::apply_route(Qp& qp, const wire::Route& route, bool loopback) {
  const wire::RouteTemplate wanted = wire::make_template(route);
  std::shared_ptr<const wire::RouteTemplate> shared;
  std::erase_if(routes, [](const auto& known) { return known.expired(); });
  for (const auto& known : routes) {
    auto candidate = known.lock();
    if (candidate->length == wanted.length && candidate->bytes == wanted.bytes) shared = candidate;
  }
  if (shared == nullptr) {
    shared = std::make_shared<const wire::RouteTemplate>(wanted);
    routes.push_back(shared);
  }
  qp.cold->route = shared;
  qp.route = shared.get();
  qp.loopback = loopback;
}

void Engine::set_route(Qp& qp, const wire::Route& route, bool loopback) { impl_->apply_route(qp, route, loopback); }

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
  if (mask.has(QpAttrBit::sq_psn)) qp.tx.una = qp.tx.next = qp.tx.sent = Psn(attr.sq_psn);
  qp.pkey = core.config.pkey;
  qp.access = now.access;
  qp.dest_qpn = now.dest_qpn;
  qp.mtu_shift = static_cast<uint8_t>(7 + static_cast<uint32_t>(now.path_mtu));
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
  qp.tx.retries_left = qp.retry_cnt;
  qp.tx.rnr_retries_left = qp.rnr_retry;
  qp.udp_source = wire::udp_source_port(now.av.flow_label, qp.qpn, qp.dest_qpn);
}

void Engine::Impl::to_state(Qp& qp, QpState state) {
  switch (state) {
    case QpState::reset: reset_qp(qp); return;
    case QpState::error: enter_error(core, qp); return;
    case QpState::sqd:
      qp.state = state;
      qp.cold->sq_drained_reported = false;
      // The newest packet may have left without asking for an ACK, because more was to follow.
      if (qp.tx.una != qp.tx.sent) rewind_to(core, qp, qp.tx.sent - 1);
      check_drained(core, qp);
      return;
    default:
      qp.state = state;
      core.activate(qp);
      return;
  }
}

void Engine::modify(Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route, bool loopback) {
  impl_->apply(qp, attr, mask);
  if (route != nullptr) impl_->apply_route(qp, *route, loopback);
  if (mask.has(QpAttrBit::state)) impl_->to_state(qp, attr.state);
}

QpAttr Engine::query(const Qp& qp) const {
  QpAttr attr = qp.cold->attr;
  attr.state = attr.cur_state = qp.state;
  attr.sq_psn = qp.tx.next.value();
  attr.rq_psn = qp.rx.expected.value();
  return attr;
}

}  // namespace uroce::transport
