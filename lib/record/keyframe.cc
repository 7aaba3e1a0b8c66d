#include "record/keyframe.h"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace uroce::record {
namespace {

using transport::Engine;
using transport::Qp;
using transport::Srq;

template <class T>
void add(std::vector<std::byte>& to, const T& value) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

std::vector<std::byte> describe_config(const Engine& engine) {
  const transport::EngineConfig& config = engine.config();
  EngineRecord record{.now = engine.now(),
                      .index = config.index,
                      .index_bits = config.index_bits,
                      .max_qps = config.max_qps,
                      .burst = config.burst,
                      .window_packets = config.window_packets,
                      .long_windows = config.long_windows,
                      .settings = config.settings,
                      .peer_delay = config.peer_delay,
                      .seed = {},
                      .pkey = config.pkey,
                      .vlan = config.vlan,
                      .plain_path = config.plain_path,
                      .check_icrc = config.check_icrc,
                      .read_window_packets = config.read_window_packets,
                      .ethernet_mtu = config.ethernet_mtu,
                      .port_mtu = config.port_mtu,
                      .mac = config.mac,
                      .gids = static_cast<uint32_t>(config.gids.size()),
                      .peers = static_cast<uint32_t>(config.peers.prefixes().size())};
  std::memcpy(record.seed.data(), &config.seed, sizeof config.seed);
  std::vector<std::byte> bytes;
  add(bytes, record);
  for (const Gid& gid : config.gids) add(bytes, gid);
  for (const Prefix& peer : config.peers.prefixes()) add(bytes, peer);
  return bytes;
}

// As the engine finds it; what it has not read yet follows.
RingRecord state_of(const ShadowRing& ring, uint32_t next) {
  const queues::RingPlace place = ring.place();
  if (place.header == nullptr) return {};
  return {.entries = place.entries,
          .stride = place.stride,
          .next = next,
          .producer = next,
          .consumer = place.header->consumer.load(std::memory_order_relaxed)};
}

void write_slots(Kind kind, uint32_t object, const ShadowRing& ring, uint32_t next, const EmitRecord& emit) {
  if (!ring.exists()) return;
  const uint32_t producer = ring.place().header->producer.load(std::memory_order_relaxed);
  const SlotsRecord all{
      .object = object, .producer = producer, .first = next, .slots = std::min(producer - next, ring.place().entries)};
  for_each_piece(ring, all, [&](const SlotsRecord& piece, std::span<const std::byte> slots) {
    std::vector<std::byte> state;
    add(state, piece);
    state.insert(state.end(), slots.begin(), slots.end());
    emit(kind, 0, {}, state);
  });
}

void write_qp(Engine& engine, Qp& qp, const ShadowQp& shadow, const EmitRecord& emit) {
  QpRecord record = describe(qp, engine.now());
  record.sq = state_of(shadow.sq, qp.tx.sq.next());
  record.rq = state_of(shadow.rq, qp.rx.rq.next());
  std::vector<std::byte> state;
  add(state, record.sq);
  add(state, record.rq);
  const std::vector<std::byte> image = engine.image(qp);
  state.insert(state.end(), image.begin(), image.end());
  emit(Kind::key_qp, 0, std::as_bytes(std::span(&record, 1)), state);
  write_slots(Kind::sends, qp.qpn, shadow.sq, qp.tx.sq.next(), emit);
  write_slots(Kind::recvs, qp.qpn, shadow.rq, qp.rx.rq.next(), emit);
}

void write_srq(const Srq& srq, const ShadowSrq& shadow, const EmitRecord& emit) {
  SrqRecord record = describe(srq, shadow.header.limit.load(std::memory_order_relaxed));
  record.ring = state_of(shadow.ring, srq.ring.next());
  std::vector<std::byte> state;
  add(state, record.limit);
  add(state, record.ring);
  emit(Kind::key_srq, shadow.attached ? 1 : 0, std::as_bytes(std::span(&record, 1)), state);
  write_slots(Kind::srq_recvs, srq.id, shadow.ring, srq.ring.next(), emit);
}

}  // namespace

void write_keyframe(Keyed keyed, uint16_t small, const EmitRecord& emit_record) {
  Engine& engine = keyed.engine;
  const EmitRecord emit = [&](Kind kind, uint16_t flags, std::span<const std::byte> fixed,
                              std::span<const std::byte> state) {
    const bool divides = kind == Kind::engine || kind == Kind::key_qp || kind == Kind::key_end;
    std::size_t piece = divides ? std::min(state.size(), kPiece) : state.size();
    emit_record(kind, flags, fixed, state.first(piece));
    for (state = state.subspan(piece); !state.empty(); state = state.subspan(piece)) {
      piece = std::min(state.size(), kPiece);
      emit_record(Kind::key_more, 0, {}, state.first(piece));
    }
  };
  const Engine::Image image = engine.image();
  emit(Kind::engine, small, describe_config(engine), image.clients);
  std::ranges::sort(keyed.srqs, {}, [](const auto& srq) { return srq.first->id; });
  for (const auto& [srq, shadow] : keyed.srqs) write_srq(*srq, *shadow, emit);
  std::ranges::sort(keyed.qps, {}, [](const auto& qp) { return qp.first->qpn; });
  for (const auto& [qp, shadow] : keyed.qps) write_qp(engine, *qp, *shadow, emit);
  emit(Kind::groups, 0, {}, std::as_bytes(engine.groups().all()));
  emit(Kind::flows, 0, describe(engine.flows()), {});
  emit(Kind::key_end, 0, {}, image.queues);
}

QpRecord describe(const Qp& qp, Nanos now) {
  const transport::QpSpec& spec = qp.cold->spec;
  QpRecord record{.now = now,
                  .qpn = spec.qpn,
                  .type = spec.type,
                  .pd = spec.pd,
                  .cap = spec.cap,
                  .signal_all = spec.signal_all,
                  .has_sq = spec.sq.header != nullptr,
                  .has_rq = spec.rq.header != nullptr,
                  .has_send_cq = spec.send_cq != nullptr,
                  .has_recv_cq = spec.recv_cq != nullptr,
                  .has_srq = spec.srq != nullptr,
                  .has_held = spec.held_recv != nullptr,
                  .retransmission = spec.retransmission,
                  .congestion = spec.congestion,
                  .window_packets = spec.window_packets,
                  .doorbell_ring = spec.doorbell_ring,
                  .send_cq = spec.send_cq != nullptr ? spec.send_cq->id() : 0,
                  .recv_cq = spec.recv_cq != nullptr ? spec.recv_cq->id() : 0,
                  .srq = spec.srq != nullptr ? spec.srq->id : 0,
                  .xrc_domain = spec.xrc_domain,
                  .sq = {},
                  .rq = {}};
  if (record.has_held) {
    record.held = spec.held_recv->held.load(std::memory_order_acquire) != 0;
    record.held_wr_id = spec.held_recv->wr_id.load(std::memory_order_relaxed);
  }
  return record;
}

SrqRecord describe(const Srq& srq, uint32_t limit) {
  return {.id = srq.id,
          .pd = srq.pd,
          .max_sge = srq.max_sge,
          .xrc_domain = srq.xrc_domain,
          .held = static_cast<uint32_t>(srq.held.size()),
          .limit = limit,
          .cq = srq.cq != nullptr ? srq.cq->id() : 0,
          .has_cq = srq.cq != nullptr,
          .ring = {}};
}

std::vector<std::byte> describe(const transport::FlowTable& flows) {
  std::vector<std::byte> all;
  for (const auto list : {flows.rules(), flows.sniffers()}) {
    for (const transport::FlowEntry& entry : list) {
      const FlowRecord record{.id = entry.id,
                              .qpn = entry.qpn,
                              .tag = entry.tag,
                              .qpns = entry.table ? static_cast<uint32_t>(entry.table->qpns.size()) : 0,
                              .type = entry.type,
                              .priority = entry.priority,
                              .hash = entry.table ? entry.table->hash : RxHash{},
                              .pattern = entry.pattern};
      add(all, record);
      for (uint32_t i = 0; i < record.qpns; ++i) add(all, entry.table->qpns[i]);
    }
  }
  return all;
}

}  // namespace uroce::record
