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
#include "pmd_glue/frame_tap.h"
#include "pmd_glue/handover.h"
#include "pmd_glue/local_link.h"
#include "pmd_glue/port.h"
#include "transport/core/seam.h"
#include "transport/datagram/flow_table.h"

namespace uroce::glue {

/// Takes finished mbufs. One thread uses it.
class TxPath {
 public:
  virtual ~TxPath() = default;
  /// Takes a prefix of `mbufs` and returns its length.
  virtual uint16_t push(std::span<rte_mbuf*> mbufs) = 0;
  /// Frees sent mbufs, for drivers that keep them until asked.
  virtual void reclaim() {}
  /// Somebody sees the frames inside the driver's burst.
  virtual bool shows_sent() const { return false; }
  /// True once after a burst that faulted. Its mbufs are neither sent nor ever freed.
  bool take_fault() { return std::exchange(faulted_, false); }

 protected:
  bool faulted_ = false;
};

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

/// At most kPending frames wait here for a full port or ring. Beyond that room() is 0, and the engine waits.
class alignas(64) EtherSink final : public transport::FrameSink {
 public:
  static constexpr std::size_t kPending = 64;
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
  bool references_payload() override;
  uint64_t mark_payload() override { return generation_; }
  bool references_payload_before(uint64_t mark) override;

  /// Sends one whole frame, e.g. an ARP reply. False when there is no room; nothing was taken.
  bool send_raw(std::span<const std::byte> frame);
  /// Tries to send waiting frames. True when any moved. Ends each round, too: a port that joins frames lets them wait
  /// for others of the round.
  bool flush();
  /// True while frames wait for flush() or room().
  bool pending() const { return tx_count_ + loop_count_ != 0; }
  const SinkCounters& counters() const { return counters_; }
  /// Sniffers among the rules get a copy of each sent frame. `rules` outlives the sink.
  void set_rules(const transport::FlowTable& rules) { rules_ = &rules; }
  /// Frames that stay in this process need no ICRC, and those for this thread no buffer either. `own`: to this engine
  /// itself. `peer`: to the engine at the other end of the port's rings; nothing where the port leads out of the
  /// process. The receivers outlive the sink's last send().
  void set_local(const LocalLink& own, const std::optional<LocalLink>& peer);
  /// The time of the current round, for engines that take frames at once.
  void set_time(Nanos now) { now_ = now; }
  /// Sets the tap that gets a copy of each sent frame; nullptr for none.
  void set_tap(FrameTap* tap) { tap_ = tap; }

 private:
  bool refill(std::size_t wanted);
  bool watched() const {
    return tap_ != nullptr || (rules_ != nullptr && rules_->has_sniffers()) ||
           (!port_needs_icrc_ && path_.shows_sent());
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
  rte_mbuf* build_external(const transport::TxFrame& frame);
  bool may_reference(const transport::TxFrame& frame) const;
  rte_mbuf_ext_shared_info& shared(uint64_t generation) { return shared_[generation % 2]; }
  void forget_references();
  /// The frames so far may leave with those of the round's next bursts.
  bool may_wait() const { return port_.joins_frames() && loop_count_ == 0 && tx_count_ < kPending; }
  bool flush_port();
  bool flush_loopback();

  const Port& port_;
  TxPath& path_;
  Handover& handover_;
  rte_mempool* const pool_;
  rte_mempool* const external_pool_;
  const ExternalMemory external_;
  const bool fills_ip_checksum_;
  const uint64_t missing_icrc_;

  FrameTap* tap_ = nullptr;
  const transport::FlowTable* rules_ = nullptr;
  Nanos now_{0};
  LocalLink own_;
  LocalLink peer_;
  bool loopback_needs_icrc_ = true;
  bool port_needs_icrc_ = true;
  std::size_t stash_count_ = 0;  ///< mbufs that make room() a promise
  std::size_t tx_count_ = 0;
  std::size_t loop_count_ = 0;
  std::array<rte_mbuf*, kPending> stash_{};
  std::array<rte_mbuf*, kPending> tx_{};
  std::array<rte_mbuf*, kPending> loop_{};
  std::array<uint64_t, kPending>
      loop_targets_{};  ///< engines that still get the frame, each with a reference of its own
  std::array<Handover::For, kPending> loop_for_{};
  /// Counts of payload references: each is 1 + those in flight. Frames of generation g count at g % 2. A generation
  /// ends when somebody waits for it and the one before it has ended, so new frames never prolong the wait.
  std::array<rte_mbuf_ext_shared_info, 2> shared_{};
  uint64_t generation_ = 0;
  SinkCounters counters_;
};

/// Sends straight to a TX queue.
class QueuePath final : public TxPath {
 public:
  QueuePath(const Port& port, uint16_t queue) : port_(port), queue_(queue), needs_guard_(port.needs_guard()) {}
  uint16_t push(std::span<rte_mbuf*> mbufs) override;
  void reclaim() override;
  bool shows_sent() const override { return port_.shows_sent(queue_); }

 private:
  const Port& port_;
  const uint16_t queue_;
  const bool needs_guard_;
};

}  // namespace uroce::glue
