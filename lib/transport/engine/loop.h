// The engine's main loop: frames, doorbells, timers, senders, control tasks.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "base/spsc_ring.h"
#include "transport/core/context.h"
#include "transport/datagram/flow_table.h"
#include "transport/datagram/multicast.h"
#include "transport/engine/dispatcher.h"
#include "transport/engine/doorbells.h"
#include "transport/engine/owners.h"
#include "transport/engine/prefetch.h"
#include "transport/engine/qp_table.h"
#include "transport/engine/routes.h"
#include "transport/engine/task.h"
#include "transport/engine/traffic.h"
#include "transport/qp/held_events.h"
#include "transport/qp/xrc.h"

namespace uroce::transport {

struct alignas(64) EngineLoop {
  static constexpr std::size_t kMaxTasks = 1024;
  static constexpr std::size_t kParseBurst = 32;

  EngineLoop(const EngineConfig& config, EngineCounters& counters, memory::RegionTable& regions, EngineEvents& events,
             const AddressHandleTable* handles)
      : ctx(config, counters, regions, events, handles, groups, xrc_srqs, flows),
        gids(config.gids),
        dispatcher(ctx),
        table(config),
        routes(config.seed.plain_seed("routes")),
        tasks(kMaxTasks),
        parsed_(kParseBurst),
        found_(kParseBurst) {}

  void on_frames(std::span<const RxFrame> frames, Nanos now);
  void on_local_frames(std::span<const TxFrame> frames, Nanos now);
  void on_raw_frames(std::span<const RxFrame> frames, Nanos now, FrameTakers takers);
  /// `engine` is passed to the tasks.
  bool poll(Engine& engine, FrameSink& sink, Nanos now);
  Nanos next_deadline() const;
  bool has_work() const;
  bool run_tasks(Engine& engine);
  /// A client with a doorbell ring of its own comes or goes. False: there is no room for another ring.
  bool add_client(queues::DoorbellReader reader, uint32_t ring, const Owner& owner);
  void remove_client(uint32_t ring);
  /// The QP works for the client of its doorbell ring. False: its number is another engine's, or in use.
  bool add(Qp& qp);
  /// False: the QP is not this engine's.
  bool remove(Qp& qp);

  MulticastGroups groups;
  XrcSrqTable xrc_srqs;
  FlowTable flows;
  Context ctx;
  std::vector<Gid> gids;  ///< of the port, now
  Dispatcher dispatcher;
  QpTable table;
  Routes routes;
  Owners owners;
  TrafficCounters traffic;
  Doorbells doorbells;
  SpscRing<TaskPtr> tasks;
  HeldEvents held_events;
  FrameSink* last_sink = nullptr;

 private:
  std::span<const std::byte> payload_of(const TxFrame& frame);
  struct Receiver {
    Qp* qp = nullptr;    ///< nullptr: there is none
    bool plain = false;  ///< the packet is plain (wire/plain_packet.h), and `qp` is there
  };
  /// `bytes`: of all frames.
  void parse_burst(std::span<const RxFrame> frames, std::size_t bytes);
  /// Counts packets of several clients.
  void count_received(std::span<const RxFrame> frames, std::size_t packets);
  /// The next frames of the local burst, after `packets` with `bytes`, are another client's.
  void change_receiver(uint16_t client, uint64_t packets, uint64_t bytes);
  /// The next frames of the burst being built are another client's.
  void change_sender(uint16_t client);
  /// Of the burst so far.
  uint64_t bytes_sent(std::span<const TxFrame> burst) const;
  /// The QPs of the first `packets` parsed ones, which came in `frames`. Counts them and their `bytes`.
  void find_receivers(std::span<const RxFrame> frames, std::size_t packets, uint64_t bytes);
  void dispatch_plain(const wire::Packet& packet, Qp& qp);
  void dispatch(const wire::Packet& packet, Qp* qp);
  void deliver_to_group(const wire::Packet& packet);
  void deliver_raw(const FlowEntry& rule, uint32_t qpn, std::span<const std::byte> frame);
  bool take_doorbells();
  void take_rung();
  void advance_timers(Nanos now);
  bool flush();
  bool send_bursts(FrameSink& sink);
  /// Ends when the burst is full or `left` (work.h) is used up. Returns what is left.
  uint32_t build_burst(uint32_t left);
  void send_burst(FrameSink& sink);
  Outcome transmit(Qp& qp);
  /// Charges the QP's client for work that took no turn. Nobody counts while one client has the engine to itself.
  void owe(uint16_t client, uint32_t work) {
    if (owners.shared()) [[unlikely]]
      dispatcher.run_queue().owe(client, work);
  }

  /// A doorbell that has been taken and not handled yet.
  struct Rung {
    uint32_t qpn;
    const Doorbells::Ring* ring;
    Qp* qp;
  };
  std::array<Rung, 64> rung_{};
  std::size_t rung_used_ = 0;
  BurstShares sent_{traffic};
  BurstShares received_locally_{traffic};
  std::vector<wire::Packet> parsed_;
  std::array<std::byte, mtu_bytes(Mtu::mtu4096)> gathered_{};  ///< payload of one local frame
  std::vector<Receiver> found_;
};
static_assert(sizeof(EngineLoop) % 64 == 0);

}  // namespace uroce::transport
