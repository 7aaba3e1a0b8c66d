// Turns frame descriptors into mbufs: an engine's way to its port's TX queue.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include <rte_mbuf.h>

#include "base/counter.h"
#include "pmd_glue/handover.h"
#include "pmd_glue/kif/outbox.h"
#include "pmd_glue/local_link.h"
#include "pmd_glue/loopback_queue.h"
#include "pmd_glue/payload_references.h"
#include "pmd_glue/port.h"
#include "pmd_glue/tx_path.h"
#include "pmd_glue/watch_slot.h"
#include "transport/core/seam.h"
#include "transport/datagram/flow_table.h"

namespace uroce::glue {

struct SinkCounters {
  Counter frames, bytes;
  Counter external_frames;  ///< those whose payload is sent from the program's memory
  Counter loopback_frames;
  Counter local_frames;  ///< those handed over without a buffer
  Counter sniffer_lost;  ///< copies for sniffers that found no buffer, or an engine too far behind
  Counter bursts;
  Counter short_bursts;     ///< the port did not take the whole burst
  Counter buffers_missing;  ///< times that the pool was empty
  Counter faults;           ///< bursts cut off by a peer that vanished (see fault_guard.h)
};

/// Frames wait here for a full port or ring, or for others that leave with them: at most kPending, or kJoined for a
/// port that joins frames. Beyond that room() is 0, and the engine waits.
class alignas(64) EtherSink final : public transport::FrameSink {
 public:
  static constexpr std::size_t kPending = LoopbackQueue::kRoom;
  /// At MTU 1500 two super-frames of a long WRITE or two READs' responses. With twice as many the receiver waits for
  /// the sender: it gets 13 % less over veth.
  static constexpr std::size_t kJoined = kif::Outbox::kMost;
  /// Copying fewer payload bytes than this is cheaper than three mbufs.
  static constexpr uint32_t kExternalMinBytes = 512;
  static constexpr uint32_t kExternalMaxSpans = 4;

  /// All arguments outlive the sink. `external_pool` holds the small mbufs of referenced payload and trailers; null:
  /// always copy.
  EtherSink(const Port& port, TxPath& path, Handover& handover, rte_mempool* external_pool);
  ~EtherSink() override;
  EtherSink(const EtherSink&) = delete;
  EtherSink& operator=(const EtherSink&) = delete;

  std::size_t room() override;
  void send(std::span<const transport::TxFrame> frames) override;
  bool references_payload() override { return references_.any(); }
  uint64_t mark_payload() override { return references_.mark(); }
  bool references_payload_before(uint64_t mark) override { return references_.any_before(mark); }

  /// Sends one whole frame, e.g. an ARP reply. False when there is no room; nothing was taken.
  bool send_raw(std::span<const std::byte> frame);
  /// Tries to send waiting frames. True when any moved. Ends each round, too: a port that joins frames lets them wait
  /// for others of the round.
  bool flush();
  /// True while frames wait for flush() or room().
  bool pending() const { return tx_count_ + loopback_.size() != 0; }
  const SinkCounters& counters() const { return counters_; }
  /// Sniffers among the rules get a copy of each sent frame. `rules` outlives the sink.
  void set_rules(const transport::FlowTable& rules) { rules_ = &rules; }
  /// Frames that stay in this process need no ICRC, and those for this thread no buffer either. `own`: to this engine
  /// itself. `peer`: to the engine at the other end of the port's rings; nothing where the port leads out of the
  /// process. The receivers outlive the sink's last send().
  void set_local(const LocalLink& own, const std::optional<LocalLink>& peer);
  /// The time of the current round, for engines that take frames at once.
  void set_time(Nanos now) { now_ = now; }
  /// Sets who gets a copy of each sent frame, and whose rules it meets; nullptr for none. `watch` outlives the next
  /// call.
  void set_watch(const Watch* watch);
  /// Frames to this device that fault rules kept go on, as far as there is room.
  void release_loopback();

 private:
  bool refill(std::size_t wanted);
  bool watched() const {
    return watch_ != nullptr || (rules_ != nullptr && rules_->has_sniffers()) ||
           (!port_needs_icrc_ && path_->shows_sent());
  }
  /// Copies a frame that leaves for those who watch.
  void show(const rte_mbuf& mbuf, bool loopback);
  void show_to_sniffers(const rte_mbuf& mbuf);
  void count_local(std::span<const transport::TxFrame> frames);
  /// Sends a frame in a buffer.
  void send_buffer(const transport::TxFrame& frame, bool is_watched);
  rte_mbuf* build(const transport::TxFrame& frame, bool is_watched);
  rte_mbuf* build_without_icrc(const transport::TxFrame& frame);
  bool needs_icrc(const transport::TxFrame& frame, bool is_watched) const;
  rte_mbuf* build_copy(const transport::TxFrame& frame);
  rte_mbuf* build_raw(const transport::TxFrame& frame);
  void loop_back(const transport::TxFrame& frame, rte_mbuf* mbuf);
  void loop_back_through_faults(rte_mbuf* mbuf);
  /// Gives a frame of RoCE to the engines of its queue pair.
  void loop_back_roce(rte_mbuf* mbuf);
  bool has_faults() const { return watch_ != nullptr && watch_->faults != nullptr; }
  rte_mbuf* build_external(const transport::TxFrame& frame);
  bool may_reference(const transport::TxFrame& frame) const;
  /// The frames so far may leave with those of the round's next bursts.
  bool may_wait() const { return most_ == kJoined && loopback_.size() == 0 && tx_count_ < most_; }
  bool flush_port();

  const Port& port_;
  TxPath& port_path_;
  TxPath* path_;  ///< port_path_, or fault rules before it
  Handover& handover_;
  rte_mempool* const pool_;
  rte_mempool* const external_pool_;
  const ExternalMemory port_external_;
  ExternalMemory external_;  ///< with fault rules: never, because they change frames
  const std::size_t most_;   ///< frames that wait for the port
  bool fills_ip_checksum_;
  const uint64_t missing_icrc_;

  const Watch* watch_ = nullptr;
  const transport::FlowTable* rules_ = nullptr;
  Nanos now_{0};
  LocalLink own_;
  LocalLink peer_;
  bool loopback_needs_icrc_ = true;
  bool port_needs_icrc_ = true;
  std::size_t stash_count_ = 0;  ///< mbufs that make room() a promise
  std::size_t tx_count_ = 0;
  std::array<rte_mbuf*, kPending> stash_{};
  std::array<rte_mbuf*, kJoined> tx_{};
  LoopbackQueue loopback_;
  PayloadReferences references_;
  SinkCounters counters_;
};

}  // namespace uroce::glue
