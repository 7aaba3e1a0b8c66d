// Sends echoes of IP over a device, and finds their answers among the frames that the device receives.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <uroce/verbs.h>

#include "net/echo.h"

namespace uroce::cli {

/// A raw packet queue pair with a sniffer: the answers come by no other way, and on ports beside the kernel the kernel
/// gets them, too. A busy device's frames may leave no room for them.
class PathProbe {
 public:
  /// On an open device. Errors: those of the objects, EPERM among them (only root and the daemon's user may sniff).
  static Result<std::unique_ptr<PathProbe>> open(Context context);

  /// Learns the way from the next RoCE frame that leaves for `to`. False: there was none within `limit`.
  bool learn_route(const Gid& from, const Gid& to, std::chrono::nanoseconds limit);
  /// The time until an IP packet of `bytes` came back whole; nullopt: it did not within `limit`.
  std::optional<std::chrono::nanoseconds> echo(uint32_t bytes, std::chrono::nanoseconds limit);

 private:
  static constexpr uint32_t kReceives = 256;
  static constexpr std::size_t kFrameBytes = 4352;  ///< longer frames are not looked at

  PathProbe(Context context, ProtectionDomain pd, CompletionQueue cq, QueuePair qp);
  Result<void> start();
  bool receive(uint64_t slot);
  /// Until a frame is wanted. False: none was within `limit`, or the device is gone.
  bool wait_for(std::chrono::nanoseconds limit, const std::function<bool(std::span<const std::byte>)>& wanted);

  Context context_;
  ProtectionDomain pd_;
  CompletionQueue cq_;
  std::vector<std::byte> memory_;  ///< of the receives, then of one send
  Result<MemoryRegion> mr_;
  QueuePair qp_;
  std::optional<Flow> sniffer_{};
  net::EchoRoute route_{};
  uint16_t id_, sequence_ = 0;
};

}  // namespace uroce::cli
