// An engine's queue on a port: takes bursts from the driver, steers frames, runs the engine, and sends its frames.
// Belongs to one worker thread.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/counter.h"
#include "base/random.h"
#include "faults/frame_faults.h"
#include "pmd_glue/handover.h"
#include "pmd_glue/local_link.h"
#include "pmd_glue/neighbourhood.h"
#include "pmd_glue/port.h"
#include "pmd_glue/shared_queue.h"
#include "pmd_glue/sink.h"
#include "pmd_glue/steering.h"
#include "pmd_glue/watch_slot.h"
#include "transport/engine/engine.h"
#include "wire/packet.h"

namespace uroce::glue {

class EndingQps;

struct PortQueueCounters {
  Counter received;  ///< frames from the port's queue
  Counter slow;      ///< ARP, ICMP, ICMPv6
  Counter slow_lost;
  Counter foreign;          ///< neither RoCE nor those, and wanted by no receive rule
  Counter bad_ip_checksum;  ///< dropped because the NIC found a bad checksum
  Counter lost_on_purpose;  ///< dropped for StackOptions::receive_loss
  Counter oversize;         ///< longer than a buffer of this port
  Counter faults;           ///< RX bursts cut off by a peer that vanished
  faults::FaultCounters injected;
};

/// Parts that a port queue uses; all outlive it.
struct PortQueueParts {
  const Port& port;
  Handover& handover;
  Neighbourhood& neighbourhood;
  SharedQueue* shared = nullptr;  ///< only for ports with fewer queues than engines
  transport::Engine& engine;
  rte_mempool* external_pool = nullptr;
  double receive_loss = 0;   ///< StackOptions::receive_loss
  bool whole_frames = true;  ///< StackOptions::whole_frames
  /// The next round follows at once. So what a round receives is acknowledged by the next one, behind the answers that
  /// the application posts in between. Otherwise the round itself acknowledges it.
  bool answers_first = false;
};

/// Like an engine, it shares no cache line that it writes with another.
class alignas(64) PortQueue {
 public:
  static constexpr std::size_t kBurst = 32;

  explicit PortQueue(const PortQueueParts& parts);

  /// RX burst, steering, engine, TX. True when there was work.
  bool round(const TscClock& clock);
  /// When the last round began.
  Nanos last_round() const { return last_round_; }
  /// After the last round: sends the ACKs that are due.
  void finish(Nanos now);
  /// After the last round, on any thread: the paused engine handles frames that only this process has, because they
  /// left the kernel, or another engine handed them over. True when there was one; it may be another engine's.
  bool receive_rest(Nanos now);
  transport::Engine& engine() { return parts_.engine; }
  uint32_t index() const { return index_; }
  const Port& port() const { return parts_.port; }
  /// When the engine, or a frame that fault rules keep, is due.
  Nanos next_deadline() const;
  /// True while frames wait for room on the port.
  bool blocked() const { return sink_->pending() || parts_.port.holds_frames(); }
  bool waits_by_interrupt() const { return queue_ && parts_.port.rx_interrupts(); }
  uint16_t queue_id() const { return *queue_; }
  /// Whether each frame ends the worker's sleep. Drivers of cards may lose an interrupt; the kernel does not.
  bool frames_wake() const { return !queue_ || (parts_.port.is_kernel_interface() && parts_.port.rx_interrupts()); }
  /// Frames that other engines handed over and that wait here. Any thread.
  uint32_t waiting_frames() const { return parts_.handover.waiting(index_); }
  /// Before the first round: the port's queue and that of `peer` are joined by rings; `sent` is the ring to `peer`.
  /// Both belong to one thread. `peer` outlives this queue's last round.
  void join(PortQueue& peer, const rte_ring& sent);
  const PortQueueCounters& counters() const { return counters_; }
  /// Counters of the port queue and its sink, by name. Any thread.
  std::vector<std::pair<std::string, uint64_t>> counter_list() const;
  // --- Captures and fault rules, any thread --------------------------------------------------------------------

  /// Copies frames to `tap` from the next round on. False when another tap is set.
  bool begin_tap(FrameTap& tap) { return watchers_.begin(tap); }
  bool tapped() const { return watchers_.tapped(); }
  /// Ends the copying. The tap stays in use until tap_in_use() changes.
  void end_tap() { watchers_.end_tap(); }
  const FrameTap* tap_in_use() const { return watchers_.tap_in_use(); }
  /// Fault rules of this queue, which nobody uses yet; nullptr without rules. `device`: its name.
  std::unique_ptr<PortFaults> make_faults(const faults::Rules& rules, std::string_view device, EndingQps& qps);
  /// See WatchSlot.
  void set_faults(PortFaults* faults) { watchers_.set_faults(faults); }
  const PortFaults* faults_in_use() const { return watchers_.faults_in_use(); }

  /// Tests and the service thread's frames use it.
  EtherSink& sink() { return *sink_; }

 private:
  /// This engine takes a received frame, another one has it, or nobody needs it any more.
  enum class Fate : uint8_t { ours, given_away, done };

  bool round_in_pause(Nanos now);
  void change_watch();
  /// Once in each round while somebody watches.
  void tell_time(Nanos now);
  LocalLink own_link();
  /// Takes a burst into burst_.
  uint16_t rx_burst();
  uint16_t guarded_rx_burst();
  uint16_t rx_burst_through_faults();
  /// True when there was a frame.
  bool receive_bursts(Nanos now);
  /// The same of a port whose messages may bring several frames.
  bool receive_messages(Nanos now);
  /// Returns how many frames came, at most kBurst.
  uint16_t receive(Nanos now);
  /// Decides about each frame, gives the engine its own, and frees all that were not given away.
  void handle_burst(std::span<rte_mbuf*> burst, Nanos now);
  /// Puts a frame of several segments into one buffer. nullptr: it is too long, or no buffer is free; it is then
  /// counted and freed.
  rte_mbuf* in_one_buffer(rte_mbuf* mbuf);
  /// Gives captures a copy, and completes the frame for all who see it. `missing_icrc`: as that of frame_of().
  inline void show_to_watchers(rte_mbuf& mbuf, wire::Peek::Kind kind, uint64_t missing_icrc);
  /// Gives a frame of RoCE that is another engine's to that engine.
  inline Fate place_roce(rte_mbuf* mbuf, uint32_t dest_qpn, bool alone);
  /// The frames of ARP, ICMP and ICMPv6.
  void pass_to_neighbourhood(const rte_mbuf& mbuf);
  /// True when there was a frame.
  bool receive_handed_over(Nanos now);
  /// Returns how many frames came, at most kBurst.
  uint32_t take_handed_over(Nanos now);
  bool send_slow();

  PortQueueParts parts_;
  const uint32_t index_;
  const uint32_t max_frame_;
  Random random_;
  const uint64_t missing_icrc_;
  const bool takes_messages_;            ///< the port's is_kernel_interface()
  const bool needs_guard_;               ///< the port's answer, which compares strings
  bool plain_rx_;                        ///< neither a guard nor fault rules
  const std::optional<uint16_t> queue_;  ///< without one, engine 0 receives for this engine
  FrameRing* const slow_;                ///< frames of the service thread; nullptr for none
  std::unique_ptr<TxPath> path_;
  std::unique_ptr<EtherSink> sink_;
  uint32_t pause_seen_ = 0;
  Nanos last_round_{0};
  std::array<rte_mbuf*, kBurst> burst_{};  ///< null before each burst: a burst that faults leaves those it finished
  LocalReceiver local_;
  bool joined_ = false;  ///< all frames from the port are of this process
  std::array<transport::RxFrame, kBurst>
      frames_;  ///< of one burst: to make it would cost a single frame more than it does
  WatchSlot watchers_;
  Steering steering_;
  PortQueueCounters counters_;
};
static_assert(sizeof(PortQueue) % 64 == 0);

}  // namespace uroce::glue
