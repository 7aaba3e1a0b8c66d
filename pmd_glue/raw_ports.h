// The common part of tests without transport: EAL, ports whose links are up, bursts.
#pragma once

#include <rte_mbuf.h>
#include <sched.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <uroce/error.h>

#include "base/time.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/eal.h"
#include "pmd_glue/port.h"
#include "pmd_glue/raw_options.h"
#include "pmd_glue/ring_pair.h"
#include "wire/packet.h"

namespace uroce::glue {

inline constexpr std::size_t kRawBurst = 32;  ///< frames received at a time
/// Shortest frame, bytes: without the FCS, Ethernet's minimum.
inline constexpr uint32_t kRawHeader = 60;
inline constexpr uint16_t kRawEtherType = 0x88b5;  ///< IEEE 802, local experimental EtherType 1

inline double to_seconds(Nanos time) { return std::chrono::duration<double>(time).count(); }

/// Gives the core away after a while without work, because both ends may share it. Never, if `busy`.
class PollingBackoff {
 public:
  explicit PollingBackoff(bool busy) : busy_(busy) {}
  void worked(bool worked) {
    if (worked || busy_) {
      empty_ = 0;
    } else if (++empty_ > kSpins) {
      sched_yield();
    }
  }

 private:
  static constexpr uint32_t kSpins = 64;
  const bool busy_;
  uint32_t empty_ = 0;
};

/// EAL and the ports of one run. One thread uses it, but for the ports' queues.
class RawPorts {
 public:
  /// Starts EAL and the ports, and waits for their links. Errors: those of Stack::start(); ENODEV (too few ports),
  /// EINVAL (frame size), ETIMEDOUT (link), EINTR (`stop`). `options` must outlive the result.
  static Result<std::unique_ptr<RawPorts>> open(const std::vector<std::string>& eal_args, const RawOptions& options);
  ~RawPorts();
  RawPorts(const RawPorts&) = delete;
  RawPorts& operator=(const RawPorts&) = delete;

  Port& first() { return *ports_[0]; }
  Port& second() { return *ports_[1]; }
  /// The lcores besides the caller's.
  const std::vector<unsigned>& workers() const { return eal_->workers(); }
  Nanos now() const { return clock_.now(); }
  /// True when the caller wants the run to end.
  bool ends(Nanos now);
  /// Tells the caller, the first time that frames pass.
  void tell_start(bool frames_pass) {
    if (!frames_pass || told_) return;
    told_ = true;
    if (options_.started) options_.started();
  }

 private:
  RawPorts(const RawOptions& options, std::unique_ptr<Eal> eal) : options_(options), eal_(std::move(eal)) {}
  Result<void> start();
  Result<void> wait_for_links();

  const RawOptions& options_;
  // Members are destroyed last to first.
  std::unique_ptr<Eal> eal_;
  std::unique_ptr<RingPair> rings_{};
  std::vector<std::unique_ptr<Port>> ports_{};
  TscClock clock_{};
  Nanos next_ask_{0};
  bool told_ = false;
};

/// Receives a burst from the port's first queue; nothing while its peer has vanished (fault_guard.h).
uint16_t receive_burst(const Port& port, std::span<rte_mbuf*> mbufs);

/// Bytes of a frame before what a test writes into it.
inline constexpr std::size_t kRawContents = 42;

/// The headers of the tests' frames from one port: an EtherType of their own. The filter of an interface of the kernel
/// lets that not pass; there they are UDP datagrams to RoCE's port, with consecutive IPv4 ids, and leave as
/// super-frames.
class RawHeaders {
 public:
  /// For frames of `frame_bytes`, kRawHeader or more.
  RawHeaders(const Port& port, uint32_t frame_bytes);
  /// Writes those of the next frame, and zeros up to kRawHeader.
  void store(std::byte* frame);

 private:
  std::array<std::byte, kRawHeader> first_{};
  std::optional<wire::RouteTemplate> datagram_;
  const uint32_t frame_bytes_;
  uint16_t id_ = 0;
};
/// True for a frame of these tests.
bool is_raw_frame(std::span<const std::byte> frame);

}  // namespace uroce::glue
