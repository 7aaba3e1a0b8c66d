// What an engine is made of, for the files that implement it.
#pragma once

#include <memory>
#include <vector>

#include "transport/engine_core.h"

namespace uroce::transport {

inline constexpr std::size_t kMaxTasks = 1024;
inline constexpr std::size_t kMaxDoorbellRings = 1024;
inline constexpr std::size_t kParseBurst = 32;

struct Engine::Impl {
  Impl(const EngineConfig& config, EngineCounters& counters, memory::RegionTable& regions, EngineEvents& events,
       const AddressHandleTable* handles)
      : core(config, counters, regions, events, handles),
        table(config.max_qps + 1),
        tasks(kMaxTasks),
        parsed(kParseBurst),
        found(kParseBurst) {
    doorbells.reserve(kMaxDoorbellRings);
  }

  struct Ring {
    uint32_t id;
    queues::DoorbellReader reader;
  };

  /// QP1 has the place behind the others.
  Qp*& slot_of(uint32_t qpn) {
    return table[qpn == kGsiQpn ? core.config.max_qps : (qpn >> core.config.index_bits) & (core.config.max_qps - 1)];
  }
  Qp* find(uint32_t qpn) {
    Qp* qp = slot_of(qpn);
    return qp != nullptr && qp->qpn == qpn ? qp : nullptr;
  }
  void parse_burst(std::span<const RxFrame> frames);
  void dispatch(const wire::Packet& packet, Qp* qp);
  void deliver_to_group(const wire::Packet& packet);
  /// Is the packet one for this QP? `to_group`: by way of a multicast group that the QP is in.
  wire::Drop admit(const wire::Packet& packet, const Qp* qp, bool to_group = false) const;
  bool run_tasks(Engine& engine);
  bool take_doorbells();
  bool send_bursts(FrameSink& sink);
  bool transmit(Qp& qp);
  void apply(Qp& qp, const QpAttr& attr, QpAttrMask mask);
  void to_state(Qp& qp, QpState state);
  void apply_route(Qp& qp, wire::Route route, bool loopback);

  EngineCore core;
  std::vector<Qp*> table;
  SpscRing<TaskPtr> tasks;
  std::vector<Ring> doorbells;
  std::vector<wire::Packet> parsed;
  std::vector<Qp*> found;
  std::vector<std::weak_ptr<wire::RouteTemplate>> routes;  // between bursts they may change
  FrameSink* last_sink = nullptr;
};

}  // namespace uroce::transport
