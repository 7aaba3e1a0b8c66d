// The engine: one per lcore and device, run to completion, sharing nothing with its siblings.
//
//   on_frames():  parse -> find the QP -> responder (requests) or completer (responses)
//   poll():       control tasks -> doorbells -> timers -> active QPs -> one burst to the sink
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/counter.h"
#include "base/spsc_ring.h"
#include "memory/region_table.h"
#include "queues/doorbell.h"
#include "transport/address_handles.h"
#include "transport/congestion.h"
#include "transport/cq_writer.h"
#include "transport/qp.h"
#include "transport/qp_status.h"
#include "transport/seam.h"
#include "transport/srq.h"
#include "transport/task.h"
#include "wire/packet.h"

namespace uroce::transport {

struct EngineConfig {
  uint32_t index = 0;             ///< 0..(2^index_bits - 1), also the low bits of this engine's QPNs
  uint32_t index_bits = 0;        ///< low QPN bits that name the engine, 0..6
  uint32_t max_qps = 16384;       ///< QP slots of this engine, a power of two, at most 2^(24 - index_bits)
  uint32_t burst = 32;            ///< frames built per call of the sink
  uint32_t window_packets = 256;  ///< most unacknowledged packets of one QP, at most 1024
  Retransmission retransmission = Retransmission::automatic;  ///< of QPs that do not choose
  CongestionSettings congestion{};                            ///< of QPs that do not choose, and parameters for all
  uint32_t parking_frames = 1024;  ///< frames that arrived out of order and are kept, all QPs together
  uint32_t udp_source_ports = 1;   ///< ports that a QP's packets are sprayed over, 1..64
  uint64_t seed = 1;               ///< of what peers must not guess
  uint16_t pkey = 0xffff;
  bool check_icrc = true;  ///< false only where frames are made up by a fuzzer
  // Of the port; only datagrams need them, connected QPs have a route.
  Mtu port_mtu = Mtu::mtu4096;  ///< largest datagram
  uint16_t vlan = 0;            ///< id of its frames, 0: untagged
  std::vector<Gid> gids{};      ///< its addresses at first
};

/// Statistics of one engine. Written by its thread, read by any.
struct EngineCounters {
  std::array<Counter, wire::kDropCount> drops;  ///< received frames dropped, by wire::Drop
  Counter rx_packets, rx_bytes, tx_packets, tx_bytes;
  Counter acks_sent, naks_sent, rnr_naks_sent;
  Counter acks_received, naks_received, rnr_naks_received;
  Counter timeouts, retransmitted_packets;
  Counter probes, spurious_retransmissions;
  Counter hellos_sent, hellos_received, sacks_sent, sacks_received, parked_packets;
  Counter send_completions, recv_completions, error_completions;
  Counter ecn_marked_received, cnps_sent, cnps_received;
  Counter cnps_ignored;   ///< too many, or for a QP without congestion control
  Counter paced_waits;    ///< times that a QP waited for its turn
  Counter doorbells_bad;  ///< doorbell tokens that named no QP of this engine
};

class Engine {
 public:
  /// `regions`, `events` and `handles` outlive the engine. The tables are shared by the engines of a device; without
  /// `handles` no datagram is sent.
  Engine(const EngineConfig& config, memory::RegionTable& regions, EngineEvents& events,
         const AddressHandleTable* handles = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- The engine's thread only, or another in its place while it stands still
  // -----------------------------------------------------------------------------

  /// Handles received frames, in order. `now` never goes back.
  void on_frames(std::span<const RxFrame> frames, Nanos now);
  /// Runs doorbells, timers, senders and then tasks; at most a few bursts go to `sink`. True when anything was done.
  bool poll(FrameSink& sink, Nanos now);
  /// When poll() must next be called though no frame and no doorbell comes; kNever without timers, and a time
  /// in the past while QPs wait only for room in the sink.
  Nanos next_deadline() const;
  /// True when doorbells, tasks or senders have work now; looks only, for the step before sleeping.
  bool has_work() const;
  /// Frames that are kept because they came out of order.
  uint32_t parked_frames() const;
  /// Tells posters whether this engine needs waking (see DoorbellPoster::ring).
  void set_sleeping(bool sleeping);
  /// Runs `work` as poll() would run a task, after those that wait.
  void run(const std::function<void(Engine&)>& work, Nanos now);

  // --- Engine's thread, through a Task ----------------------------------------------------------------------

  /// Doorbell rings are polled round robin; at most 1024. Detach before the memory goes.
  void attach_doorbells(queues::DoorbellReader reader, uint32_t id);
  void detach_doorbells(uint32_t id);
  /// Makes a QP findable; its QPN's low bits must be this engine's index. Not owned. False: slot taken or out of range.
  bool attach(Qp& qp);
  /// Forgets the QP: no list, timer or table refers to it afterwards.
  void detach(Qp& qp);
  /// Applies attributes that qp_state.h has checked. `route` is needed with QpAttrBit::av.
  void modify(Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route, bool loopback);
  /// Current attributes as ibv_query_qp reports them.
  QpAttr query(const Qp& qp) const;
  /// What it does for the QP now.
  QpTransportStatus status(const Qp& qp) const;
  /// Neighbours have other Ethernet addresses now: routes of QPs whose next hop is one of them follow. Takes effect
  /// with the next packet.
  void redirect(const NextHop& next_hop);
  /// The port's addresses from now on. Connected QPs keep the one in their route.
  void set_gids(std::vector<Gid> gids);
  /// FrameSink::mark_payload() and references_payload_before() of the sink that poll() had last.
  uint64_t mark_sink_payload() const;
  bool sink_references_payload_before(uint64_t mark) const;
  /// QP `qpn`, of whichever engine, listens to `group`. To be called on all engines of the device. False: too many do.
  bool join(const Gid& group, uint32_t qpn);
  void leave(const Gid& group, uint32_t qpn);
  void leave_all(uint32_t qpn);

  // --- One control thread -----------------------------------------------------------------------------------

  /// Queues `task` for the engine's thread. False when 1024 are waiting already.
  bool submit(TaskPtr task);

  // --- Any thread ---------------------------------------------------------------------------------------------

  const EngineConfig& config() const { return config_; }
  const EngineCounters& counters() const { return counters_; }

 private:
  struct Impl;
  EngineConfig config_;
  EngineCounters counters_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace uroce::transport
