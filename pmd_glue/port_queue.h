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
#include "pmd_glue/neighbourhood.h"
#include "pmd_glue/port.h"
#include "pmd_glue/shared_queue.h"
#include "pmd_glue/sink.h"
#include "transport/engine.h"

namespace uroce::glue {

struct PortQueueCounters {
  Counter received;    ///< frames from the port's queue
  Counter steered;     ///< of them, handed over to another engine
  Counter steer_lost;  ///< lost because that engine is too far behind
  Counter slow;        ///< ARP, ICMP, ICMPv6
  Counter slow_lost;
  Counter foreign;          ///< neither RoCE nor those
  Counter bad_ip_checksum;  ///< dropped on the NIC's word
  Counter lost_on_purpose;  ///< as StackOptions::receive_loss asks
  Counter oversize;         ///< longer than a buffer of this port
  Counter faults;           ///< RX bursts cut off by a peer that vanished
};

/// What a port queue works with; all outlive it.
struct PortQueueParts {
  const Port& port;
  Handover& handover;
  Neighbourhood& neighbourhood;
  SharedQueue* shared = nullptr;  ///< of ports with fewer queues than engines
  transport::Engine& engine;
  rte_mempool* external_pool = nullptr;
  std::vector<Waker*> wakers;  ///< by engine: who runs it
  double receive_loss = 0;     ///< StackOptions::receive_loss
};

class PortQueue {
 public:
  static constexpr std::size_t kBurst = 32;

  explicit PortQueue(const PortQueueParts& parts);

  /// RX burst, steering, engine, TX. True when there was work.
  bool round(const TscClock& clock);
  transport::Engine& engine() { return parts_.engine; }
  uint32_t index() const { return index_; }
  const Port& port() const { return parts_.port; }
  /// Frames are waiting for room on the port.
  bool blocked() const { return sink_->pending() || !parts_.port.link_up(); }
  bool waits_by_interrupt() const { return queue_ && parts_.port.rx_interrupts(); }
  uint16_t queue_id() const { return *queue_; }
  const PortQueueCounters& counters() const { return counters_; }
  /// The port queue's and its sink's, by name. Any thread.
  std::vector<std::pair<std::string, uint64_t>> counter_list() const;
  // --- Capturing, any thread ------------------------------------------------------------------------------------

  /// Copies frames to `tap` from the next round on. False: another has it.
  bool begin_tap(FrameTap& tap) {
    FrameTap* none = nullptr;
    return wanted_tap_.compare_exchange_strong(none, &tap);
  }
  /// By who has it; in use until tap_in_use() says otherwise.
  void end_tap() { wanted_tap_.store(nullptr); }
  const FrameTap* tap_in_use() const { return tap_in_use_.load(std::memory_order_acquire); }

  /// For tests and the service's frames.
  EtherSink& sink() { return *sink_; }

 private:
  void change_tap(FrameTap* tap);
  uint16_t rx_burst(std::span<rte_mbuf*> out);
  bool receive(Nanos now);
  bool receive_handed_over(Nanos now);
  bool send_slow();
  bool make_contiguous(rte_mbuf*& mbuf);
  void steer(rte_mbuf* mbuf, uint32_t engine);
  /// A multicast frame is for every engine; each gets a reference.
  void steer_to_others(rte_mbuf* mbuf);

  PortQueueParts parts_;
  const uint32_t index_;
  const uint32_t max_frame_;
  Random random_;
  std::optional<uint16_t> queue_;  ///< none: engine 0 receives for this one
  std::unique_ptr<TxPath> path_;
  std::unique_ptr<EtherSink> sink_;
  uint32_t pause_seen_ = 0;
  FrameTap* tap_ = nullptr;
  std::atomic<FrameTap*> wanted_tap_{nullptr};
  std::atomic<FrameTap*> tap_in_use_{nullptr};  ///< tap_, for others to see
  PortQueueCounters counters_;
};

}  // namespace uroce::glue
