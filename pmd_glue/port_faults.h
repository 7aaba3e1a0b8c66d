// Fault rules at a port queue: between the port and whatever the engine receives and sends. It is there only while
// rules are, so frames pass no code of it otherwise.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include <rte_mbuf.h>

#include "base/time.h"
#include "faults/frame_faults.h"
#include "pmd_glue/frame_tap.h"
#include "pmd_glue/port.h"
#include "pmd_glue/tx_path.h"

namespace uroce::glue {

/// The engine's queue pairs, which rules may end. Engine's thread.
class EndingQps : public faults::QpView {
 public:
  /// Takes it to the error state, and tells the program, between two rounds of the engine.
  virtual void end(uint32_t qpn, Nanos now) = 0;

 protected:
  ~EndingQps() = default;
};

/// Calls on the queue's thread, but for the constructor, the destructor and is_idle(). All frames are in one buffer,
/// with their ICRC.
class PortFaults final : public TxPath {
 public:
  static constexpr std::size_t kBurst = 32;

  /// `path` leads to the port. All outlive it.
  PortFaults(const faults::Rules& rules, std::string_view device, const Port& port, TxPath& path,
             faults::FaultCounters& counters, EndingQps& qps);
  /// Frees what it has. No thread uses it any more.
  ~PortFaults() override;
  PortFaults(const PortFaults&) = delete;
  PortFaults& operator=(const PortFaults&) = delete;

  /// Takes what the rules before had kept. Without rules of its own it lets all go.
  void succeed(PortFaults& before);
  /// `tap`: of a capture, which gets the frames that rules act on; nullptr for none.
  void set_time(Nanos now, FrameTap* tap) {
    now_ = now;
    tap_ = tap;
  }
  /// Sends what is due, as far as there is room, and ends queue pairs, between two rounds of the
  /// engine.
  void send_due();
  /// When the next frame may go on; kNever for none.
  Nanos due() const;
  /// Any thread: nothing was kept after the last send_due().
  bool is_idle() const { return idle_.load(std::memory_order_acquire); }

  // --- Sending --------------------------------------------------------------------------------------------------

  uint16_t push(std::span<rte_mbuf*> mbufs) override;
  void reclaim() override { path_.reclaim(); }
  bool shows_sent() const override { return path_.shows_sent(); }

  // --- Receiving ------------------------------------------------------------------------------------------------

  /// A burst that was received before waits: nothing may be put before it is taken.
  bool has_received() const { return received_count_ >= kBurst; }
  /// Takes a frame from the port. At most kBurst in a row.
  void put_received(rte_mbuf* mbuf);
  /// Fills `out` with frames for the engine, at most kBurst, and returns their number.
  uint16_t take_received(std::span<rte_mbuf*> out);

  // --- Frames from the device to itself -------------------------------------------------------------------------

  /// False: the frame is not to go on now.
  bool take_loopback(rte_mbuf& mbuf);
  /// Calls `give` with each frame that is due, in a new buffer, until it returns false: that buffer is freed.
  template <class Give>
  void release_loopback(Give give) {
    release(faults::Way::loopback, give);
  }

 private:
  template <class Give>
  void release(faults::Way way, Give give) {
    faults_.release(way, now_, [&](std::span<const std::byte> frame) {
      rte_mbuf* mbuf = copy(frame);
      if (mbuf == nullptr) return false;
      if (give(mbuf)) return true;
      rte_pktmbuf_free(mbuf);
      return false;
    });
  }
  /// nullptr: no buffer is free.
  rte_mbuf* copy(std::span<const std::byte> frame) const;
  /// Asks the rules about a frame, and stands still where they say so.
  bool take(faults::Way way, rte_mbuf& mbuf);
  void release_sent();
  void send_waiting();

  const Port& port_;
  TxPath& path_;
  EndingQps& qps_;
  faults::FrameFaults faults_;
  const bool has_rules_;
  Nanos now_{0};
  FrameTap* tap_ = nullptr;
  std::size_t waiting_count_ = 0;   ///< frames for the port
  std::size_t received_count_ = 0;  ///< frames for the engine
  std::array<rte_mbuf*, 2 * kBurst> waiting_{};
  std::array<rte_mbuf*, 4 * kBurst> received_{};
  std::atomic<bool> idle_{true};
};

}  // namespace uroce::glue
