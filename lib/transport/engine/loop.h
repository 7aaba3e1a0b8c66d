// The engine's main loop: frames, doorbells, timers, senders, control tasks.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "base/spsc_ring.h"
#include "transport/core/context.h"
#include "transport/datagram/multicast.h"
#include "transport/engine/dispatcher.h"
#include "transport/engine/doorbells.h"
#include "transport/engine/qp_table.h"
#include "transport/engine/routes.h"
#include "transport/engine/task.h"

namespace uroce::transport {

struct EngineLoop {
  static constexpr std::size_t kMaxTasks = 1024;
  static constexpr std::size_t kParseBurst = 32;

  EngineLoop(const EngineConfig& config, EngineCounters& counters, memory::RegionTable& regions, EngineEvents& events,
             const AddressHandleTable* handles)
      : ctx(config, counters, regions, events, handles, groups),
        gids(config.gids),
        dispatcher(ctx),
        table(config),
        tasks(kMaxTasks),
        parsed(kParseBurst),
        found(kParseBurst) {}

  void on_frames(std::span<const RxFrame> frames, Nanos now);
  /// `engine` is passed to the tasks.
  bool poll(Engine& engine, FrameSink& sink, Nanos now);
  Nanos next_deadline() const;
  bool has_work() const;
  bool run_tasks(Engine& engine);

  MulticastGroups groups;
  Context ctx;
  std::vector<Gid> gids;  ///< of the port, now
  Dispatcher dispatcher;
  QpTable table;
  Routes routes;
  Doorbells doorbells;
  SpscRing<TaskPtr> tasks;
  FrameSink* last_sink = nullptr;

 private:
  void parse_burst(std::span<const RxFrame> frames);
  void dispatch(const wire::Packet& packet, Qp* qp);
  void deliver_to_group(const wire::Packet& packet);
  bool take_doorbells();
  void advance_timers(Nanos now);
  bool send_bursts(FrameSink& sink);
  bool build_burst();
  void send_burst(FrameSink& sink);
  Outcome transmit(Qp& qp);

  std::vector<wire::Packet> parsed;
  std::vector<Qp*> found;
};

}  // namespace uroce::transport
