// A replay of what control and applications did.
#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "record/replayer.h"

namespace uroce::record {
namespace {

using transport::Engine;

// The most that control allows, and more than any recording has.
constexpr uint32_t kMostEntries = 1u << 20;
constexpr uint32_t kMostStride = 4096;

void check_ring(const Record& record, const RingRecord& ring, std::size_t least_stride) {
  const bool none = ring.entries == 0;
  const bool sized = std::has_single_bit(ring.entries) && ring.entries <= kMostEntries && ring.stride >= least_stride &&
                     ring.stride <= kMostStride;
  if (none || sized) return;
  throw Stop{Stop::Why::malformed, fmt::format("record {} ({}) has a ring of {} entries of {} bytes", record.number,
                                               name_of(record.kind), ring.entries, ring.stride)};
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
      const auto bell = parts.get<DoorbellRecord>();
      if (bell.client >= transport::Owners::kMaxClients) diverge(record, "the doorbell is of no client");
      engine_->hand_in({bell.ring, bell.client}, bell.token);
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
    case Kind::detach: {
      const auto what = parts.get<ObjectRecord>();
      QueuePair& qp = qp_of(record, what.object);
      control(what.now, [&](Engine& engine) { engine.detach(*qp.qp); });
      qps_.erase(what.object);
      return true;
    }
    case Kind::attach_ring: {
      const auto what = parts.get<RingOwnerRecord>();
      control(what.now, [&](Engine& engine) { engine.attach_doorbells({}, what.ring, what.owner); });
      return true;
    }
    case Kind::detach_ring: {
      const auto what = parts.get<ObjectRecord>();
      control(what.now, [&](Engine& engine) { engine.detach_doorbells(what.object); });
      return true;
    }
    case Kind::attach_srq:
    case Kind::detach_srq: {
      const auto what = parts.get<ObjectRecord>();
      Queue& queue = srq_of(record, what.object);
      control(what.now, [&](Engine& engine) {
        record.kind == Kind::attach_srq ? engine.attach_srq(queue.srq) : engine.detach_srq(queue.srq);
      });
      return true;
    }
    case Kind::gids: {
      const auto now = parts.get<Nanos>();
      std::vector<Gid> gids;
      while (!parts.empty()) gids.push_back(parts.get<Gid>());
      control(now, [&](Engine& engine) { engine.set_gids(gids); });
      return true;
    }
    case Kind::whole_writes:
      control(parts.get<Nanos>(), [&](Engine& engine) { engine.keep_writes_whole(record.small != 0); });
      return true;
    case Kind::redirect: {
      const auto what = parts.get<RedirectRecord>();
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
    ShadowQp& shadow = qp_of(record, what.object).shadow;
    ring = record.kind == Kind::sends ? &shadow.sq : &shadow.rq;
  }
  bool good = ring->exists() && what.slots <= ring->place().entries;
  for (uint32_t i = 0; good && i < what.slots; ++i) {
    const auto length = parts.get<uint16_t>();
    good = ring->put(what.first + i, parts.bytes(length));
  }
  if (!good) diverge(record, fmt::format("{} slots do not fit into the ring of {:#x}", what.slots, what.object));
  ring->publish_producer(what.producer);
}

void Replayer::use_srq(const Record& record) {
  const auto what = Parts(record).get<SrqRecord>();
  check_ring(record, what.ring, sizeof(queues::RecvWqe) + what.max_sge * sizeof(Sge));
  if (what.max_sge > kMaxSge || what.held > queues::kHeldOfXrcQueue || what.ring.entries == 0) {
    diverge(record, "no shared receive queue is like this");
  }
  Queue& queue = srqs_[what.id];
  transport::Srq& srq = queue.srq;
  queue.shadow.ring = ShadowRing(what.ring, {}, Slots::recv);
  queue.shadow.header.limit.store(what.limit, std::memory_order_relaxed);
  if (what.held != 0) {
    queue.held = Lines(what.held * sizeof(queues::HeldRecv));
    srq.held = {reinterpret_cast<queues::HeldRecv*>(queue.held.data()), what.held};
  }
  srq.id = what.id;
  srq.pd = what.pd;
  srq.max_sge = what.max_sge;
  srq.xrc_domain = what.xrc_domain;
  srq.cq = cq_of(what.has_cq, what.cq);
  srq.header = &queue.shadow.header;
  srq.ring = queues::RingConsumer(queue.shadow.ring.place(), what.ring.next);
}

void Replayer::attach(const Record& record) {
  const auto what = Parts(record).get<QpRecord>();
  if (qps_.contains(what.qpn)) diverge(record, fmt::format("QP {:#x} is there already", what.qpn));
  const bool sized = what.cap.max_send_sge <= kMaxSge && what.cap.max_recv_sge <= kMaxSge &&
                     what.cap.max_inline_data <= kMaxInline && what.type <= QpType::xrc_target;
  if (!sized) diverge(record, "no QP is like this");
  check_ring(record, what.sq, queues::send_stride(what.cap.max_send_sge, what.cap.max_inline_data));
  check_ring(record, what.rq, queues::recv_stride(what.cap.max_recv_sge));
  QueuePair& made = qps_[what.qpn];
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
                         .srq = what.has_srq ? &srq_of(record, what.srq).srq : nullptr,
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
  control(what.now, [&](Engine& engine) {
    if (!engine.attach(*made.qp)) diverge(record, fmt::format("the engine does not take QP {:#x}", what.qpn));
  });
}

void Replayer::modify(const Record& record) {
  const auto what = Parts(record).get<ModifyRecord>();
  QueuePair& qp = qp_of(record, what.qpn);
  control(what.now, [&](Engine& engine) {
    engine.modify(*qp.qp, what.attr, what.mask, what.has_route ? &what.route : nullptr, what.loopback);
  });
}

void Replayer::adopt(const Record& record, bool known) {
  Parts parts(record);
  const auto what = parts.get<ObjectRecord>();
  QueuePair& qp = qp_of(record, what.object);
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
    const auto what = parts.get<FlowRecord>();
    if (what.qpns > kMaxIndirection || (what.qpns != 0 && !std::has_single_bit(what.qpns))) {
      diverge(record, "no receive rule is like this");
    }
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
