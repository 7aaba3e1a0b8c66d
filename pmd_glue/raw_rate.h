// The frame rate of a port pair without transport: the yardstick of the benchmarks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <uroce/error.h>

namespace uroce::glue {

enum class RawRole : uint8_t {
  send,     ///< on the first port, from one core
  receive,  ///< on the first port, from one core
  both,     ///< from the first port to the second: on two cores with a worker lcore, else in turns on one
};

struct RawOptions {
  RawRole role = RawRole::both;
  uint32_t frame_bytes = 4096;  ///< Ethernet header to the end, without preamble and FCS; 60 or more
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
  /// How long the port may stay down, or a receiver may wait for its first frame.
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);
  /// Called every few milliseconds; true ends the run early with the frames counted so far. Empty: never.
  std::function<bool()> stop{};
  int mtu = 0;                ///< as StackOptions::mtu
  bool back_to_back = false;  ///< as StackOptions::back_to_back; for RawRole::both
  uint32_t rx_descriptors = 1024;
  uint32_t tx_descriptors = 1024;
};

struct RawRate {
  uint64_t frames = 0;  ///< sent, or received
  uint32_t frame_bytes = 0;
  double seconds = 0;  ///< from the first to the last of them

  double frames_per_second() const { return seconds > 0 ? static_cast<double>(frames) / seconds : 0; }
  double gigabits_per_second() const { return frames_per_second() * frame_bytes * 8 / 1e9; }
};

/// Starts EAL, moves frames as fast as possible for `duration`, stops EAL. A receiver counts from its first frame, and
/// ends early when nothing arrives for 0.5 s. RawRole::both and `receive` report the received frames. Errors: those of
/// Stack::start(); EINVAL (frame size), ETIMEDOUT (link, or nothing received), EINTR (`stop` before the first frame).
Result<RawRate> run_raw(const std::vector<std::string>& eal_args, const RawOptions& options);

}  // namespace uroce::glue
