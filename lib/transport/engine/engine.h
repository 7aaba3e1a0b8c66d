// The engine: one per lcore and device, run to completion, sharing nothing with its siblings.
//
//   on_frames():  parse -> find the QP -> responder (requests) or completer (responses)
//   poll():       doorbells -> timers -> flushes -> run queue -> bursts to the sink -> control tasks
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/guess_table.h"
#include "memory/region_table.h"
#include "queues/doorbell.h"
#include "transport/core/engine_config.h"
#include "transport/core/engine_counters.h"
#include "transport/core/seam.h"
#include "transport/datagram/address_handles.h"
#include "transport/datagram/flow_table.h"
#include "transport/engine/owners.h"
#include "transport/engine/task.h"
#include "transport/engine/traffic.h"
#include "transport/qp/qp.h"
#include "transport/qp/status.h"

namespace uroce::transport {

struct EngineLoop;

/// Two engines share no cache line that either writes.
class alignas(64) Engine {
 public:
  /// `regions`, `events` and `handles` outlive the engine. The tables are shared by the engines of a device; without
  /// `handles` no datagram is sent.
  Engine(const EngineConfig& config, memory::RegionTable& regions, EngineEvents& events,
         const AddressHandleTable* handles = nullptr);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // --- The engine's thread only, or another in its place while it stands still ---------------------------------

  /// Handles received frames, in order. `now` never goes back.
  void on_frames(std::span<const RxFrame> frames, Nanos now);
  /// Handles frames that an engine of this thread has just built, in order; each is neither raw nor for a group. Their
  /// payload is placed straight from where it lies, and nothing refers to it afterwards. Also for FrameSink::send(),
  /// while this engine or another polls. `now` as in on_frames().
  void on_local_frames(std::span<const TxFrame> frames, Nanos now);
  /// Gives frames to raw packet QPs of this engine: to sniffers all, to others those that their rules take. The caller
  /// chooses the engines by flows(); RoCE packets come to on_frames() besides. Sniffers get what the port sends, too.
  void on_raw_frames(std::span<const RxFrame> frames, Nanos now, FrameTakers takers = FrameTakers::all);
  /// The receive rules of the device. They change in tasks alone.
  const FlowTable& flows() const;
  /// Runs doorbells, timers, senders and then tasks; at most a few bursts go to `sink`. True when anything was done.
  bool poll(FrameSink& sink, Nanos now);
  /// When poll() must next be called though no frame and no doorbell comes; kNever without timers, and a time
  /// in the past while QPs wait only for room in the sink.
  Nanos next_deadline() const;
  /// True when doorbells, tasks or senders have work now. Changes nothing; for the step before sleeping.
  bool has_work() const;
  /// Queue pairs that may have something to send.
  std::size_t waiting_qps() const;
  /// Frames in the reorder buffers of all QPs.
  uint32_t parked_frames() const;
  /// Shows posters whether this engine must be woken (see DoorbellPoster::ring).
  void set_sleeping(bool sleeping);
  /// Runs `work` as poll() would run a task, after the tasks that wait.
  void run(const std::function<void(Engine&)>& work, Nanos now);

  // --- Engine's thread, through a Task ----------------------------------------------------------------------

  /// Doorbell rings are polled round robin. Detach before the memory goes. False: Doorbells::kMaxRings are attached.
  /// The engine serves owners in turn (fair_queue.h).
  bool attach_doorbells(queues::DoorbellReader reader, uint32_t id, const Owner& owner = {});
  /// Another ring of the client of ring `id`, which is attached. It has the same number, and goes with the first.
  void add_doorbells(queues::DoorbellReader reader, uint32_t id);
  void detach_doorbells(uint32_t id);
  /// The number of the client of ring `id`, for traffic_of(). It is another's once the ring and the client's QPs are
  /// gone.
  uint16_t client_of(uint32_t id) const;
  /// The position at which another engine's reader of ring `id`, the first of its client, continues (DoorbellReader).
  uint32_t doorbell_position(uint32_t id) const;
  /// Makes a QP findable; its QPN's low bits must be this engine's index. Not owned. False: slot taken or out of range.
  bool attach(Qp& qp);
  /// Afterwards no list, timer or table refers to the QP.
  void detach(Qp& qp);
  /// Makes an XRC shared receive queue known by its number to the QPs of its domain. Not owned.
  void attach_srq(Srq& srq);
  /// Afterwards no QP refers to it. A message that fills one of its receives ends there; its next packet gets a NAK.
  void detach_srq(Srq& srq);
  /// Writes the QP's state (qp/snapshot.h) and detaches it. It sends nothing more and takes nothing more from its
  /// rings. The caller then destroys it. Its shared memory, keys and completion queues stay for the other engine. `now`
  /// as in poll().
  std::vector<std::byte> export_qp(Qp& qp, Nanos now);
  /// Goes on with a QP that another engine has written: `qp`, just made of the same QpSpec, is attached, its timers
  /// run, and what is due leaves with the next poll(). `now`: this engine's clock, which may show another time. Errors:
  /// as read_snapshot(); EBUSY: the number is another engine's, or in use. The QP is not attached then, and the caller
  /// destroys it.
  Result<void> import_qp(Qp& qp, std::span<const std::byte> snapshot, Nanos now);
  /// Applies attributes that qp/state.h has checked. `route` is needed with QpAttrBit::av.
  void modify(Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route, bool loopback);
  /// Current attributes as ibv_query_qp reports them.
  QpAttr query(const Qp& qp) const;
  /// See CqWriter::moderate(). forget() comes before the writer goes.
  void moderate(CqWriter& writer, uint32_t count, Nanos period);
  void forget(const CqWriter& writer);
  /// The peers that guessed numbers of this engine, at most GuessTable::kPeers; when, by the engine's clock.
  std::vector<PeerGuesses> guesses() const;
  /// The state of the QP's congestion control and loss recovery.
  QpTransportStatus status(const Qp& qp) const;
  /// Some neighbours have new Ethernet addresses. Updates the routes of QPs whose next hop is one of them, from the
  /// next packet on.
  void redirect(const NextHop& next_hop);
  /// The port's addresses from now on. Connected QPs keep the one in their route.
  void set_gids(std::vector<Gid> gids);
  /// FrameSink::mark_payload() and references_payload_before() of the sink that poll() had last.
  uint64_t mark_sink_payload() const;
  bool sink_references_payload_before(uint64_t mark) const;
  /// QP `qpn`, of any engine, joins `group`. Call this on all engines of the device. False: there are too many members.
  bool join(const Gid& group, uint32_t qpn);
  void leave(const Gid& group, uint32_t qpn);
  void leave_all(uint32_t qpn);
  /// A rule for a raw packet QP of any engine. Call this on all engines of the device. False: there are too many rules.
  bool add_flow(const FlowEntry& entry);
  void remove_flow(uint64_t id);

  // --- One control thread -----------------------------------------------------------------------------------

  /// Queues `task` for the engine's thread. False: 1024 tasks wait already.
  bool submit(TaskPtr task);

  // --- Any thread ---------------------------------------------------------------------------------------------

  const EngineConfig& config() const { return config_; }
  const EngineCounters& counters() const { return counters_; }
  /// The packets of all clients, and those for nobody.
  Traffic traffic() const;
  /// The packets of the client of that number, and of those that had the number before it.
  Traffic traffic_of(uint16_t client) const;

 private:
  EngineConfig config_;
  EngineCounters counters_;
  std::unique_ptr<EngineLoop> loop_;
};
static_assert(sizeof(Engine) % 64 == 0);

}  // namespace uroce::transport
