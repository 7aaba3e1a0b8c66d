// Frame descriptors become mbufs: an engine's way to its port's TX queue.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <rte_mbuf.h>

#include "base/counter.h"
#include "pmd_glue/frame_tap.h"
#include "pmd_glue/handover.h"
#include "pmd_glue/port.h"
#include "transport/core/seam.h"

namespace uroce::glue {

/// Where finished mbufs go. One user thread.
class TxPath {
 public:
  virtual ~TxPath() = default;
  /// Takes a prefix of `mbufs`, returns its length.
  virtual uint16_t push(std::span<rte_mbuf*> mbufs) = 0;
  /// Frees what has been sent, where the driver keeps it until asked.
  virtual void reclaim() {}
  /// True once after a burst that faulted: what it was given is neither sent nor ever freed.
  bool take_fault() { return std::exchange(faulted_, false); }

 protected:
  bool faulted_ = false;
};

struct SinkCounters {
  Counter frames, bytes;
  Counter external_frames;  ///< of them, with payload sent from where it lies
  Counter loopback_frames;
  Counter bursts;
  Counter short_bursts;     ///< the port took less than it was given
  Counter buffers_missing;  ///< times that the pool was empty
  Counter faults;           ///< bursts cut off by a peer that vanished (see fault_guard.h)
};

/// Frames at most kPending wait here for a port or ring that is full; beyond that room() is 0 and the engine waits.
class EtherSink final : public transport::FrameSink {
 public:
  static constexpr std::size_t kPending = 64;
  /// Below this many payload bytes copying is cheaper than three mbufs.
  static constexpr uint32_t kExternalMinBytes = 512;
  static constexpr uint32_t kExternalMaxSpans = 4;

  /// All outlive the sink. `external_pool` holds the small mbufs of referenced payload and trailers; null: copy always.
  EtherSink(const Port& port, TxPath& path, Handover& handover, rte_mempool* external_pool);
  ~EtherSink() override;
  EtherSink(const EtherSink&) = delete;
  EtherSink& operator=(const EtherSink&) = delete;

  std::size_t room() override;
  void send(std::span<const transport::TxFrame> frames) override;
  bool references_payload() override;
  uint64_t mark_payload() override { return generation_; }
  bool references_payload_before(uint64_t mark) override;

  /// One whole frame as it is, e.g. an ARP reply. False without room: nothing was taken.
  bool send_raw(std::span<const std::byte> frame);
  /// Gives waiting frames another try. True when any moved.
  bool flush();
  /// True while frames wait; they need flush(), or a call of room().
  bool pending() const { return tx_count_ + loop_count_ != 0; }
  const SinkCounters& counters() const { return counters_; }
  /// Whom to show what is sent; nullptr for nobody.
  void set_tap(FrameTap* tap) { tap_ = tap; }

 private:
  bool refill(std::size_t wanted);
  rte_mbuf* build(const transport::TxFrame& frame);
  rte_mbuf* build_copy(const transport::TxFrame& frame);
  rte_mbuf* build_external(const transport::TxFrame& frame);
  bool may_reference(const transport::TxFrame& frame) const;
  rte_mbuf_ext_shared_info& shared(uint64_t generation) { return shared_[generation % 2]; }
  void forget_references();
  bool flush_port();
  bool flush_loopback();

  const Port& port_;
  TxPath& path_;
  Handover& handover_;
  rte_mempool* const pool_;
  rte_mempool* const external_pool_;
  const ExternalMemory external_;
  const bool fills_ip_checksum_;

  FrameTap* tap_ = nullptr;
  std::size_t stash_count_ = 0;  ///< mbufs that make room() a promise
  std::size_t tx_count_ = 0;
  std::size_t loop_count_ = 0;
  std::array<rte_mbuf*, kPending> stash_{};
  std::array<rte_mbuf*, kPending> tx_{};
  std::array<rte_mbuf*, kPending> loop_{};
  std::array<uint64_t, kPending> loop_targets_{};  ///< engines still to get it, each with a reference of its own
  /// Of payload references: each count is 1 + those in flight. Frames of generation g count at g % 2; a generation
  /// ends when somebody waits for it and the one before it is gone, so that new frames never prolong the wait.
  std::array<rte_mbuf_ext_shared_info, 2> shared_{};
  uint64_t generation_ = 0;
  SinkCounters counters_;
};

/// Straight to a TX queue.
class QueuePath final : public TxPath {
 public:
  QueuePath(const Port& port, uint16_t queue) : port_(port), queue_(queue) {}
  uint16_t push(std::span<rte_mbuf*> mbufs) override;
  void reclaim() override;

 private:
  const Port& port_;
  const uint16_t queue_;
};

}  // namespace uroce::glue
