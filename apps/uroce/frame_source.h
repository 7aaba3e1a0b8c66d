// The frames of a device, live from the running daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include <uroce/error.h>

#include "uroce/fetch.h"

namespace uroce::cli {

struct LiveFrame {
  uint64_t time_ns = 0;  ///< since 1970
  bool outbound = false;
  uint32_t fault_rule = 0;             ///< that has acted on it, so that it is shown again; 0: none
  std::span<const std::byte> bytes{};  ///< valid until the next frame
};

struct FrameTotals {
  uint64_t seen = 0;
  uint64_t taken = 0;    ///< those of `seen` that were wanted
  uint64_t dropped = 0;  ///< they came faster than they were taken
  bool qp_gone = false;  ///< the queue pair has gone, and the run ended with it
  Result<void> end{};    ///< EIO: the daemon has gone, and with it the capture; ETIMEDOUT: it stands still
};

class FrameSource {
 public:
  struct Wanted {
    Source source{};               ///< a daemon with one device needs no name
    std::optional<uint32_t> qp{};  ///< only frames of this queue pair, local or remote
    uint64_t count = 0;            ///< frames; 0: no limit
    double seconds = 0;            ///< 0: no limit
    bool until_qp_gone = false;    ///< run() ends when the queue pair goes
  };
  /// Returns false to end.
  using TakeFrame = std::function<bool(const LiveFrame&)>;

  /// Starts the capture. SIGINT and SIGTERM end run() from now on, a later one the program, and SIGPIPE is ignored.
  /// Errors: the daemon's, EPERM and EBUSY among them, and EINVAL (several devices and no name).
  static Result<FrameSource> open(const Wanted& wanted);
  FrameSource(FrameSource&&) noexcept;
  ~FrameSource();

  const std::string& device() const;
  /// Whether there is a queue pair to wait for. Errors: ENOENT (the device has none of that number, and none that is
  /// connected to one). Queue pair 1 and the multicast number are always there.
  Result<void> queue_pair() const;
  /// Until a signal, a limit, a false result, the queue pair's end, or the daemon's. `pause` is called when no frame
  /// waits.
  FrameTotals run(const TakeFrame& take, const std::function<bool()>& pause);

 private:
  struct Parts;
  explicit FrameSource(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace uroce::cli
