// A replay of what control and applications did.
#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "record/checks.h"
#include "record/replayer.h"
#include "transport/qp/state.h"

namespace uroce::record {
namespace {

using transport::Engine;

// The same values again: a shared receive queue that is in use keeps them.
bool is_same(const transport::Srq& srq, const SrqRecord& record) {
  const bool same_cq = record.has_cq ? srq.cq != nullptr && srq.cq->id() == record.cq : srq.cq == nullptr;
  return srq.pd == record.pd && srq.max_sge == record.max_sge && srq.xrc_domain == record.xrc_domain &&
         srq.held.size() == record.held && same_cq;
}

}  // namespace

bool Replayer::play_input(const Record& record) {
  Parts parts(record);
  switch (record.kind) {
    case Kind::sends:
    case Kind::recvs:
    case Kind::srq_recvs: put_slots(record); return true;
    case Kind::srq_limit: {
      const auto id = parts.get<uint32_t>();
      srq_of(record, id).shadow.header.limit.store(parts.get<uint32_t>(), std::memory_order_relaxed);
      return true;
    }
    case Kind::doorbell: {
      const auto bell = read<DoorbellRecord>(record);
      engine_->hand_in({bell.ring, bell.client}, bell.token);
      return true;
    }
    case Kind::region: {
      if (record.small != kRegionsGone) return false;  // the engine asks for it
      regions_.clear();
      return true;
    }
    case Kind::groups: set_groups(record); return true;
    case Kind::flows: set_flows(record); return true;
    default: return false;
  }
}

bool Replayer::play_control(const Record& record) {
  Parts parts(record);
  switch (record.kind) {
    case Kind::attach: attach(record); return true;
    case Kind::modify: modify(record); return true;
    case Kind::adopt: adopt(record, true); return true;
    case Kind::adopt_unknown: adopt(record, false); return true;
    case Kind::srq: use_srq(record); return true;
    case Kind::srq_gone: srqs_.erase(parts.get<uint32_t>()); return true;
    case Kind::detach: {
      const auto what = read<ObjectRecord>(record);
      QueuePair& qp = qp_of(record, what.object);
      control(what.now, [&](Engine& engine) { engine.detach(*qp.qp); });
      if (qp.srq != nullptr) --qp.srq->users;
      ring_bytes_ -= qp.bytes;
      qps_.erase(what.object);
      return true;
    }
    case Kind::attach_ring: {
      const auto what = read<RingOwnerRecord>(record);
      control(what.now, [&](Engine& engine) { engine.attach_doorbells({}, what.ring, what.owner); });
      return true;
    }
    case Kind::detach_ring: {
      const auto what = read<ObjectRecord>(record);
      control(what.now, [&](Engine& engine) { engine.detach_doorbells(what.object); });
      return true;
    }
    case Kind::attach_srq:
    case Kind::detach_srq: attach_srq(record, record.kind == Kind::attach_srq); return true;
    case Kind::gids: {
      const auto now = read<Nanos>(record, parts);
      std::vector<Gid> gids;
      while (!parts.empty()) gids.push_back(parts.get<Gid>());
      control(now, [&](Engine& engine) { engine.set_gids(gids); });
      return true;
    }
    case Kind::whole_writes:
      control(read<Nanos>(record), [&](Engine& engine) { engine.keep_writes_whole(record.small != 0); });
      return true;
    case Kind::redirect: {
      const auto what = read<RedirectRecord>(record);
      control(what.now, [&](Engine& engine) {
        engine.redirect([&](const Gid& to) { return to == what.to ? std::optional(what.mac) : std::nullopt; });
      });
      return true;
    }
    default: return false;
  }
}

void Replayer::control(Nanos now, const std::function<void(Engine&)>& work) {
  now_ = now;
  engine_->run(work, now);
}

Replayer::QueuePair& Replayer::qp_of(const Record& record, uint32_t qpn) {
  const auto found = qps_.find(qpn);
  if (found == qps_.end()) diverge(record, fmt::format("there is no QP {:#x}", qpn));
  return found->second;
}

Replayer::Queue& Replayer::srq_of(const Record& record, uint32_t id) {
  const auto found = srqs_.find(id);
  if (found == srqs_.end()) diverge(record, fmt::format("there is no shared receive queue {}", id));
  return found->second;
}

transport::CqWriter* Replayer::cq_of(bool has, uint32_t id) {
  if (!has) return nullptr;
  CompletionQueue& cq = cqs_[id];
  if (cq.writer == nullptr) {
    cq.writer = std::make_unique<transport::CqWriter>(id, &cq.header, queues::RingPlace{});
    cq.writer->set_tape(this);
  }
  return cq.writer.get();
}

void Replayer::put_slots(const Record& record) {
  Parts parts(record);
  const auto what = parts.get<SlotsRecord>();
  ShadowRing* ring = nullptr;
  if (record.kind == Kind::srq_recvs) {
    ring = &srq_of(record, what.object).shadow.ring;
  } else {
    QueuePair& qp = qp_of(record, what.object);
    const bool sends = record.kind == Kind::sends;
    if (sends && qp.qp->type == QpType::xrc_target) refuse(record, "an XRC target sends nothing");
    ring = sends ? &qp.shadow.sq : &qp.shadow.rq;
  }
  bool good = ring->exists() && what.slots <= ring->place().entries;
  for (uint32_t i = 0; good && i < what.slots; ++i) {
    const auto length = parts.get<uint16_t>();
    good = ring->put(what.first + i, parts.bytes(length));
  }
  if (!good) diverge(record, fmt::format("{} slots do not fit into the ring of {:#x}", what.slots, what.object));
  ring->publish_producer(what.producer);
}

void Replayer::take_memory(const Record& record, std::size_t bytes) {
  ring_bytes_ += bytes;
  if (ring_bytes_ > most_ring_bytes_) {
    refuse(record, fmt::format("all rings together have {} bytes; a replay has {}", ring_bytes_, most_ring_bytes_));
  }
}

void Replayer::use_srq(const Record& record) {
  const auto what = read<SrqRecord>(record);
  Queue& queue = srqs_[what.id];
  transport::Srq& srq = queue.srq;
  if (queue.users != 0 && !is_same(srq, what)) refuse(record, "the shared receive queue is in use, and another one");
  const std::size_t bytes = queues::ring_bytes(what.ring.entries, what.ring.stride);
  ring_bytes_ -= std::exchange(queue.bytes, 0);
  take_memory(record, bytes);
  queue.bytes = bytes;
  queue.shadow.ring = ShadowRing(what.ring, {}, Slots::recv);
  queue.shadow.header.limit.store(what.limit, std::memory_order_relaxed);
  if (queue.users == 0) {
    queue.held = {};
    srq.held = {};
    if (what.held != 0) {
      queue.held = Lines(what.held * sizeof(queues::HeldRecv));
      srq.held = {reinterpret_cast<queues::HeldRecv*>(queue.held.data()), what.held};
    }
    srq.held_in_use = 0;
  }
  srq.id = what.id;
  srq.pd = what.pd;
  srq.max_sge = what.max_sge;
  srq.xrc_domain = what.xrc_domain;
  srq.cq = cq_of(what.has_cq, what.cq);
  srq.header = &queue.shadow.header;
  srq.ring = queues::RingConsumer(queue.shadow.ring.place(), what.ring.next);
}

void Replayer::attach_srq(const Record& record, bool attaches) {
  const auto what = read<ObjectRecord>(record);
  Queue& queue = srq_of(record, what.object);
  if (std::exchange(queue.shadow.attached, attaches) == attaches || queue.srq.xrc_domain == 0) {
    refuse(record, "it is no XRC queue, or is one already");
  }
  queue.users += attaches ? 1 : -1;
  control(what.now, [&](Engine& engine) { attaches ? engine.attach_srq(queue.srq) : engine.detach_srq(queue.srq); });
}

void Replayer::attach(const Record& record) {
  const auto what = read<QpRecord>(record);
  QueuePair& made = make(record, what);
  control(what.now, [&](Engine& engine) {
    if (!engine.attach(*made.qp)) diverge(record, fmt::format("the engine does not take QP {:#x}", what.qpn));
  });
}

Replayer::QueuePair& Replayer::make(const Record& record, const QpRecord& what) {
  if (qps_.contains(what.qpn)) diverge(record, fmt::format("QP {:#x} is there already", what.qpn));
  if (what.window_packets != engine_->config().window_packets) refuse(record, "its window is not the engine's");
  Queue* const srq = what.has_srq ? &srq_of(record, what.srq) : nullptr;
  if (srq != nullptr && srq->srq.xrc_domain != 0) refuse(record, "its shared receive queue is an XRC one");
  const std::size_t bytes = queues::ring_bytes(what.sq.entries, what.sq.stride) * 2 +
                            (what.rq.entries != 0 ? queues::ring_bytes(what.rq.entries, what.rq.stride) : 0);
  take_memory(record, bytes);
  QueuePair& made = qps_[what.qpn];
  made.bytes = bytes;
  made.shadow.sq = ShadowRing(what.sq, {}, Slots::send);
  made.shadow.rq = ShadowRing(what.rq, {}, Slots::recv);
  transport::QpSpec spec{.qpn = what.qpn,
                         .type = what.type,
                         .pd = what.pd,
                         .cap = what.cap,
                         .signal_all = what.signal_all,
                         .retransmission = what.retransmission,
                         .congestion = what.congestion,
                         .window_packets = what.window_packets,
                         .sq = made.shadow.sq.place(),
                         .rq = made.shadow.rq.place(),
                         .sq_doorbell = &made.shadow.flag,
                         .doorbell_ring = what.doorbell_ring,
                         .send_cq = cq_of(what.has_send_cq, what.send_cq),
                         .recv_cq = cq_of(what.has_recv_cq, what.recv_cq),
                         .srq = srq != nullptr ? &srq->srq : nullptr,
                         .xrc_domain = what.xrc_domain};
  if (what.has_held) {
    made.held = Lines(sizeof(queues::HeldRecv));
    spec.held_recv = reinterpret_cast<queues::HeldRecv*>(made.held.data());
    spec.held_recv->held.store(what.held ? 1 : 0, std::memory_order_relaxed);
    spec.held_recv->wr_id.store(what.held_wr_id, std::memory_order_relaxed);
  }
  auto qp = transport::make_qp(spec);
  if (!qp) throw Stop{Stop::Why::malformed, qp.error().text};
  made.qp = std::move(*qp);
  made.qp->tx.sq = queues::RingConsumer(spec.sq, what.sq.next);
  made.qp->rx.rq = queues::RingConsumer(spec.rq, what.rq.next);
  if (srq != nullptr) ++(made.srq = srq)->users;
  return made;
}

// As control checks it (ControlQp::modify()); the route is what came of the address.
void Replayer::modify(const Record& record) {
  const auto what = read<ModifyRecord>(record);
  QueuePair& qp = qp_of(record, what.qpn);
  const QpState now = qp.qp->state;
  const QpState next = what.mask.has(QpAttrBit::state) ? what.attr.state : now;
  auto good = transport::check_transition(qp.qp->type, now, next, what.mask);
  const QpAttrMask values = what.mask.without(QpAttrBit::av);
  if (good) good = transport::check_values(qp.qp->type, what.attr, values, {});
  if (!good) refuse(record, good.error().text);
  const bool routed = what.mask.has(QpAttrBit::av) && qp.qp->type != QpType::ud;
  if (routed && !what.has_route) refuse(record, "it has an address, and no route");
  control(what.now, [&](Engine& engine) {
    engine.modify(*qp.qp, what.attr, what.mask, what.has_route ? &what.route : nullptr, what.loopback);
  });
}

void Replayer::adopt(const Record& record, bool known) {
  Parts parts(record);
  const auto what = read<ObjectRecord>(record, parts);
  QueuePair& qp = qp_of(record, what.object);
  if (qp.qp->state != QpState::reset || qp.qp->tx.sq.next() != 0) refuse(record, "the queue pair is in use already");
  std::vector<Gid> former;
  for (uint32_t i = 0; i < what.count; ++i) former.push_back(parts.get<Gid>());
  const auto snapshot = parts.rest();
  control(what.now, [&](Engine& engine) {
    if (!known) return engine.adopt_unknown(*qp.qp, what.now);
    // An error came in the recording, too.
    static_cast<void>(engine.adopt(*qp.qp, snapshot, what.now, former));
  });
}

void Replayer::set_groups(const Record& record) {
  transport::MulticastGroups groups;
  for (Parts parts(record); !parts.empty();) {
    const auto member = parts.get<transport::MulticastGroups::Member>();
    groups.join(member.group, member.qpn);
  }
  engine_->groups() = std::move(groups);
}

void Replayer::set_flows(const Record& record) {
  transport::FlowTable flows;
  for (Parts parts(record); !parts.empty();) {
    const auto what = read<FlowRecord>(record, parts);
    std::shared_ptr<transport::IndirectionTable> table;
    if (what.qpns != 0) table = std::make_shared<transport::IndirectionTable>(what.hash);
    for (uint32_t i = 0; i < what.qpns; ++i) table->qpns.push_back(parts.get<uint32_t>());
    flows.add({.id = what.id,
               .qpn = what.qpn,
               .table = std::move(table),
               .type = what.type,
               .priority = what.priority,
               .tag = what.tag,
               .pattern = what.pattern});
  }
  engine_->flows() = std::move(flows);
}

}  // namespace uroce::record
