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
#include "pmd_glue/frame_tap.h"
#include "pmd_glue/handover.h"
#include "pmd_glue/local_link.h"
#include "pmd_glue/neighbourhood.h"
#include "pmd_glue/port.h"
#include "pmd_glue/shared_queue.h"
#include "pmd_glue/sink.h"
#include "transport/engine/engine.h"

namespace uroce::glue {

struct PortQueueCounters {
  Counter received;    ///< frames from the port's queue
  Counter steered;     ///< those handed over to another engine
  Counter steer_lost;  ///< lost because that engine was too far behind
  Counter slow;        ///< ARP, ICMP, ICMPv6
  Counter slow_lost;
  Counter foreign;          ///< neither RoCE nor those, and wanted by no receive rule
  Counter bad_ip_checksum;  ///< dropped because the NIC found a bad checksum
  Counter lost_on_purpose;  ///< dropped for StackOptions::receive_loss
  Counter oversize;         ///< longer than a buffer of this port
  Counter faults;           ///< RX bursts cut off by a peer that vanished
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
  transport::Engine& engine() { return parts_.engine; }
  uint32_t index() const { return index_; }
  const Port& port() const { return parts_.port; }
  /// True while frames wait for room on the port.
  bool blocked() const { return sink_->pending() || parts_.port.holds_frames(); }
  bool waits_by_interrupt() const { return queue_ && parts_.port.rx_interrupts(); }
  uint16_t queue_id() const { return *queue_; }
  /// Frames that other engines handed over and that wait here. Any thread.
  uint32_t waiting_frames() const { return parts_.handover.waiting(index_); }
  /// Before the first round: the port's queue and that of `peer` are joined by rings; `sent` is the ring to `peer`.
  /// Both belong to one thread. `peer` outlives this queue's last round.
  void join(PortQueue& peer, const rte_ring& sent);
  const PortQueueCounters& counters() const { return counters_; }
  /// Counters of the port queue and its sink, by name. Any thread.
  std::vector<std::pair<std::string, uint64_t>> counter_list() const;
  // --- Capturing, any thread ------------------------------------------------------------------------------------

  /// Copies frames to `tap` from the next round on. False when another tap is set.
  bool begin_tap(FrameTap& tap) {
    FrameTap* none = nullptr;
    return wanted_tap_.compare_exchange_strong(none, &tap);
  }
  bool tapped() const { return wanted_tap_.load(std::memory_order_relaxed) != nullptr; }
  /// Ends the copying. The tap stays in use until tap_in_use() changes.
  void end_tap() { wanted_tap_.store(nullptr); }
  const FrameTap* tap_in_use() const { return tap_in_use_.load(std::memory_order_acquire); }

  /// Tests and the service thread's frames use it.
  EtherSink& sink() { return *sink_; }

 private:
  void change_tap(FrameTap* tap);
  LocalLink own_link();
  /// Takes a burst into burst_.
  uint16_t rx_burst();
  /// True when there was a frame.
  bool receive_bursts(Nanos now);
  /// Returns how many frames came, at most kBurst.
  uint16_t receive(Nanos now);
  void handle_burst(std::span<rte_mbuf*> burst, Nanos now);
  /// True when there was a frame.
  bool receive_handed_over(Nanos now);
  /// Returns how many frames came, at most kBurst.
  uint32_t take_handed_over(Nanos now);
  bool send_slow();
  bool make_contiguous(rte_mbuf*& mbuf);
  void steer(rte_mbuf* mbuf, uint32_t engine, Handover::For why = Handover::For::queue_pair);
  /// Gives the frame to the receive rules that want it, on each of their engines. The caller still has its reference.
  /// False: no rule takes it. A sniffer's copy does not count.
  bool offer_to_rules(rte_mbuf* mbuf, Nanos now);
  /// Gives every engine a reference to a multicast frame.
  void steer_to_others(rte_mbuf* mbuf);

  PortQueueParts parts_;
  const uint32_t index_;
  const uint32_t max_frame_;
  Random random_;
  const uint64_t missing_icrc_;
  const bool needs_guard_;               ///< the port's answer, which compares strings
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
  FrameTap* tap_ = nullptr;
  std::atomic<FrameTap*> wanted_tap_{nullptr};
  std::atomic<FrameTap*> tap_in_use_{nullptr};  ///< tap_, readable by other threads
  PortQueueCounters counters_;
};
static_assert(sizeof(PortQueue) % 64 == 0);

}  // namespace uroce::glue
