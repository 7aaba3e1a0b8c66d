// The engine: one per lcore and device, run to completion, sharing nothing with its siblings.
//
//   on_frames():  parse -> find the QP -> responder (requests) or completer (responses)
//   poll():       doorbells -> timers -> flushes -> run queue -> bursts to the sink -> control tasks
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/guess_table.h"
#include "base/spsc_ring.h"
#include "memory/region_table.h"
#include "queues/doorbell.h"
#include "transport/core/context.h"
#include "transport/core/engine_config.h"
#include "transport/core/engine_counters.h"
#include "transport/core/seam.h"
#include "transport/datagram/address_handles.h"
#include "transport/datagram/flow_table.h"
#include "transport/datagram/multicast.h"
#include "transport/engine/dispatcher.h"
#include "transport/engine/doorbells.h"
#include "transport/engine/owners.h"
#include "transport/engine/qp_table.h"
#include "transport/engine/routes.h"
#include "transport/engine/task.h"
#include "transport/engine/traffic.h"
#include "transport/qp/held_events.h"
#include "transport/qp/qp.h"
#include "transport/qp/status.h"
#include "transport/qp/xrc.h"

namespace uroce::transport {

/// Two engines share no cache line that either writes.
class alignas(64) Engine {
 public:
  /// `regions`, `events` and `handles` outlive the engine. The tables are shared by the engines of a device; without
  /// `handles` no datagram is sent.
  Engine(const EngineConfig& config, memory::RegionTable& regions, EngineEvents& events,
         const AddressHandleTable* handles = nullptr);
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
  const FlowTable& flows() const { return flows_; }
  /// Runs doorbells, timers, senders and then tasks; at most a few bursts go to `sink`. True when anything was done.
  bool poll(FrameSink& sink, Nanos now);
  /// When poll() must next be called though no frame and no doorbell comes; kNever without timers, and a time
  /// in the past while QPs wait only for room in the sink.
  Nanos next_deadline() const;
  /// True when doorbells, tasks or senders have work now. Changes nothing; for the step before sleeping.
  bool has_work() const;
  /// Queue pairs that may have something to send.
  std::size_t waiting_qps() const { return dispatcher_.run_queue().waiting(); }
  /// Frames in the reorder buffers of all QPs.
  uint32_t parked_frames() const { return ctx_.frames.used(); }
  /// Shows posters whether this engine must be woken (see DoorbellPoster::ring).
  void set_sleeping(bool sleeping) {
    if (!is_paused()) rings().set_sleeping(sleeping);  // else another engine may be polling the rings
  }
  /// The port spreads frames over queues like this, and this engine has the queue of its index: peers are told which
  /// UDP source port reaches it. Before the first poll(); `spread` outlives the engine.
  void know_spread(const wire::ReceiveSpread& spread) { ctx_.spread = &spread; }
  /// A paused engine runs tasks alone: it takes no frame and no doorbell, and its QPs change only by tasks. So their
  /// state can be written for another process, or read. Engine's thread.
  void pause();
  void resume() { mode_ = running(); }
  bool is_paused() const { return mode_ == Mode::paused; }
  /// From now on the engine marks which queue pair it has in hand: somebody may outlive its thread. Engine's thread.
  void mark_steps();
  /// The engine's thread has died at any instruction, and the caller lives on in its memory. The engine is paused from
  /// now on. The state of the queue pair that it had in hand may be half a step's, so that snapshot() tells none; true
  /// where there is one. It tells none at all where the engine did not mark its steps.
  bool outlive_thread();
  /// Runs `work` as poll() would run a task, after the tasks that wait.
  void run(const std::function<void(Engine&)>& work, Nanos now);

  // --- Engine's thread, through a Task ----------------------------------------------------------------------

  /// Doorbell rings are polled round robin. Detach before the memory goes. False: Doorbells::kMaxRings are attached.
  /// The engine serves owners in turn (fair_queue.h).
  bool attach_doorbells(queues::DoorbellReader reader, uint32_t id, const Owner& owner = {});
  /// Another ring of the client of ring `id`, which is attached. It has the same number, and goes with the first.
  void add_doorbells(queues::DoorbellReader reader, uint32_t id) { rings().add(reader, id); }
  void detach_doorbells(uint32_t id);
  /// The positions at which another engine's readers of the rings of client `id` continue (DoorbellReader), in the
  /// order in which the rings were attached.
  std::vector<uint32_t> doorbell_positions(uint32_t id) const { return rings().positions(id); }
  /// The number of a ring's client, for traffic(), is another's once the ring and the client's QPs are gone.
  const Owners& owners() const { return owners_; }
  /// Makes a QP findable; its QPN's low bits must be this engine's index. Not owned. False: slot taken or out of range.
  bool attach(Qp& qp);
  /// Afterwards no list, timer or table refers to the QP.
  void detach(Qp& qp);
  /// Makes an XRC shared receive queue known by its number to the QPs of its domain. Not owned.
  void attach_srq(Srq& srq);
  /// Afterwards no QP refers to it. A message that fills one of its receives ends there; its next packet gets a NAK.
  void detach_srq(Srq& srq);
  /// `change` moves the queue's ring.
  void change_srq(Srq& srq, const std::function<void()>& change);
  /// Writes the QP's state (qp/snapshot.h) and detaches it. It sends nothing more and takes nothing more from its
  /// rings. The caller then destroys it. Its shared memory, keys and completion queues stay for the other engine. `now`
  /// as in poll().
  std::vector<std::byte> export_qp(Qp& qp, Nanos now);
  /// Goes on with a QP that another engine has written: `qp`, just made of the same QpSpec, is attached, its timers
  /// run, and due packets leave with the next poll(). `now`: this engine's clock, which may show another time. Errors:
  /// as read_snapshot(); EBUSY: the number is another engine's, or in use. The QP is not attached then, and the caller
  /// destroys it.
  Result<void> import_qp(Qp& qp, std::span<const std::byte> snapshot, Nanos now);
  /// From now on long WRITEs begin whole, also to uroce peers, because earlier snapshots know no others; or as before.
  void keep_writes_whole(bool whole);
  /// Is any WRITE under way as Onlies (SendSlot::as_onlies)?
  bool has_onlies();
  /// The state of an attached QP, which stays as it is. The engine is paused. Empty: see outlive_thread().
  std::vector<std::byte> snapshot(Qp& qp, Nanos now, uint32_t version);
  /// import_qp() of an attached QP that is as make_qp() made it. Its route may also have a source of `former`:
  /// addresses that the port had. After an error the caller destroys it.
  Result<void> adopt(Qp& qp, std::span<const std::byte> snapshot, Nanos now, std::span<const Gid> former = {});
  /// In place of adopt() where nobody knows the state of the QP: it ends in the error state, and what its rings hold is
  /// flushed.
  void adopt_unknown(Qp& qp, Nanos now);
  /// Applies attributes that qp/state.h has checked. `route` is needed with QpAttrBit::av.
  void modify(Qp& qp, const QpAttr& attr, QpAttrMask mask, const wire::Route* route, bool loopback);
  /// Current attributes as ibv_query_qp reports them.
  QpAttr query(const Qp& qp) const;
  /// CqWriter::moderate() and forget() take it.
  HeldEvents& held_events() { return held_events_; }
  /// The peers that guessed numbers of this engine, at most GuessTable::kPeers; when, by the engine's clock.
  std::vector<PeerGuesses> guesses() const;
  /// The state of the QP's congestion control and loss recovery.
  QpTransportStatus status(const Qp& qp) const;
  /// For fault rules, which find a packet's QP.
  QpTable& qps() { return table_; }
  /// The routes of all QPs go where neighbours have new Ethernet addresses.
  void redirect(const NextHop& next_hop);
  const Routes& routes() const { return routes_; }
  /// The port's addresses from now on. Connected QPs keep the one in their route.
  void set_gids(std::vector<Gid> gids);
  /// FrameSink::mark_payload() and references_payload_before() of the sink that poll() had last.
  uint64_t mark_sink_payload() const;
  bool sink_references_payload_before(uint64_t mark) const;
  /// The members of multicast groups, and the rules for raw packet QPs, of any engine. A change is made on all engines
  /// of the device.
  MulticastGroups& groups() { return groups_; }
  FlowTable& flows() { return flows_; }

  // --- For the engine's tape (core/tape.h) ------------------------------------------------------------------

  /// Until retape(), calls of this engine do not ask the tape.
  void untape() {
    if (mode_ == Mode::taped) mode_ = Mode::marked;
  }
  void retape() {
    if (mode_ == Mode::marked) mode_ = Mode::taped;
  }
  /// The rings of all clients. The tape takes their doorbells, and hands them in before poll().
  Doorbells& rings() { return config_.tape != nullptr ? taped_rings_ : doorbells_; }
  const Doorbells& rings() const { return config_.tape != nullptr ? taped_rings_ : doorbells_; }
  void hand_in(const DoorbellFrom& from, uint32_t token);
  /// Would poll() find nothing to do, so that only its time matters? The time of an idle poll is noted.
  bool is_idle(Nanos now) {
    const bool timers = dispatcher_.timers().may_end(now) || now >= held_events_.next_deadline();
    const bool queues = !dispatcher_.flush_queue().empty() || !dispatcher_.run_queue().empty();
    const bool counts = owners_.shared() && dispatcher_.run_queue().is_sparse();
    return !timers && !queues && !counts && tasks_seen_ == 0;
  }
  Nanos now() const { return ctx_.now; }
  /// All that the engine knows at the end of a call, for an engine just made of the same config. That one gets
  /// `clients` first, then its queue pairs, just made, and `queues` last; it goes on exactly as this one. Tables and
  /// shared receive queues are not in it, and no counters.
  struct Image {
    std::vector<std::byte> clients, queues;
  };
  Image image();
  std::vector<std::byte> image(Qp& qp);
  /// Errors: EINVAL: no image is like this. The engine can only be destroyed then.
  Result<void> restore_clients(std::span<const std::byte> image);
  Result<void> restore(Qp& qp, std::span<const std::byte> image);
  Result<void> restore_queues(std::span<const std::byte> image);

  // --- One control thread -----------------------------------------------------------------------------------

  /// Queues `task` for the engine's thread. False: 1024 tasks wait already.
  bool submit(TaskPtr task) { return tasks_.push(task); }

  // --- Any thread ---------------------------------------------------------------------------------------------

  const EngineConfig& config() const { return config_; }
  const EngineCounters& counters() const { return counters_; }
  /// The packets of all clients, and those for nobody, by the clients' numbers.
  const TrafficCounters& traffic() const { return traffic_; }

 private:
  template <class Archive>
  void persist_clients(Archive& archive);
  template <class Archive>
  void persist_queues(Archive& archive);

  static constexpr std::size_t kMaxTasks = 1024;
  static constexpr std::size_t kParseBurst = 32;

  std::span<const std::byte> payload_of(const TxFrame& frame);
  struct Receiver {
    Qp* qp = nullptr;    ///< nullptr: there is none
    bool plain = false;  ///< the packet is plain (wire/plain_packet.h), and `qp` is there
  };
  template <Steps kSteps>
  void take_lone(const RxFrame& frame);
  PredictedPacket& predicted_for(uint64_t beginning);
  template <class Handle>
  std::size_t take_while_predicted(PredictedPacket& next, std::span<const RxFrame> frames, Handle&& handle);
  template <Steps kSteps>
  std::size_t take_predicted_datagrams(PredictedPacket& next, std::span<const RxFrame> frames);
  template <Steps kSteps>
  std::size_t take_predicted(PredictedPacket& next, std::span<const RxFrame> frames);
  void predict(const RxFrame& frame, const wire::Packet& packet, Qp* qp);
  bool parse_other(const RxFrame& frame, wire::Icrc icrc, wire::Packet& packet);
  /// `bytes`: of all frames.
  template <Steps kSteps>
  void take_frames(std::span<const RxFrame> frames);
  template <Steps kSteps>
  void parse_burst(std::span<const RxFrame> frames, std::size_t bytes);
  template <Steps kSteps>
  void take_local_frames(std::span<const TxFrame> frames);
  /// Counts packets of several clients.
  void count_received(std::span<const RxFrame> frames, std::size_t packets);
  /// The next frames of the local burst, after `packets` with `bytes`, are another client's.
  void change_receiver(uint16_t client, uint64_t packets, uint64_t bytes);
  /// The next frames of the burst being built are another client's.
  void change_sender(uint16_t client);
  /// The QPs of the first `packets` parsed ones, which came in `frames`. Counts them and their `bytes`.
  void find_receivers(std::span<const RxFrame> frames, std::size_t packets, uint64_t bytes);
  template <Steps kSteps>
  void dispatch_plain(const wire::Packet& packet, Qp& qp);
  template <Steps kSteps>
  void dispatch(const wire::Packet& packet, Qp* qp);
  void deliver_to_group(const wire::Packet& packet);
  void deliver_raw(const FlowEntry& rule, uint32_t qpn, std::span<const std::byte> frame);
  template <Steps kSteps>
  bool run_stages(FrameSink& sink, Nanos now, std::size_t tasks);
  bool take_doorbells();
  void take_rung();
  /// `qp`: that of the doorbell's token; nullptr: there is none.
  void on_doorbell(const DoorbellFrom& ring, Qp* qp);
  void advance_timers(Nanos now);
  bool flush();
  template <Steps kSteps>
  bool send_bursts(FrameSink& sink);
  /// Some QP waits. Ends when none does, the burst is full or `left` (work.h) is used up. Returns what is left.
  template <Steps kSteps>
  uint32_t build_burst(uint32_t left);
  template <Steps kSteps>
  void send_burst(FrameSink& sink);
  Outcome transmit(Qp& qp);
  /// Charges the QP's client for work that took no turn. Nobody counts while one client has the engine to itself.
  void owe(uint16_t client, uint32_t work) {
    if (owners_.shared()) [[unlikely]]
      dispatcher_.run_queue().owe(client, work);
  }
  bool run_tasks(std::size_t count);
  /// After a step, or several: no QP changes, and the events that they caused are raised.
  template <Steps kSteps = Steps::marked>
  void end_steps() {
    ctx_.hand.drop<kSteps>();
    events_.raise_due();
  }
  /// False: the QP is not this engine's.
  bool remove(Qp& qp);

  EngineConfig config_;
  EngineCounters counters_;
  MulticastGroups groups_;
  XrcSrqTable xrc_srqs_;
  FlowTable flows_;
  StepEvents events_;
  Context ctx_;
  std::vector<Gid> gids_;  // of the port, now
  /// One look tells whether it runs, and how.
  enum class Mode : uint8_t { unmarked, marked, paused, taped };
  Mode running() const {
    if (config_.tape != nullptr) return Mode::taped;
    return marks_ ? Mode::marked : Mode::unmarked;
  }
  Mode mode_ = Mode::unmarked;
  bool marks_ = false;     ///< mark_steps() was called
  bool outlived_ = false;  ///< outlive_thread() was called
  Dispatcher dispatcher_;
  QpTable table_;
  Routes routes_;
  Owners owners_;
  TrafficCounters traffic_;
  Doorbells doorbells_;
  Doorbells taped_rings_;  ///< in place of doorbells_, which is empty, with a tape
  SpscRing<TaskPtr> tasks_;
  std::size_t tasks_seen_ = 0;  ///< with a tape: those that wait since before this poll
  HeldEvents held_events_;
  FrameSink* last_sink_ = nullptr;

  /// A doorbell that has been taken and not handled yet.
  struct Rung {
    uint32_t qpn;
    const Doorbells::Ring* ring;
    Qp* qp;
  };
  std::array<Rung, 64> rung_{};
  std::size_t rung_used_ = 0;
  BurstShares sent_{traffic_};
  BurstShares received_locally_{traffic_};
  std::vector<wire::Packet> parsed_;
  std::array<std::byte, mtu_bytes(Mtu::mtu4096)> gathered_{};  ///< payload of one local frame
  std::vector<Receiver> found_;
};
static_assert(sizeof(Engine) % 64 == 0);

}  // namespace uroce::transport
