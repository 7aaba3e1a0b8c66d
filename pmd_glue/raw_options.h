// The settings of tests of a port pair without transport: raw_rate.h, raw_latency.h.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

namespace uroce::glue {

enum class RawRole : uint8_t {
  send,     ///< on the first port, from one core
  receive,  ///< on the first port, from one core
  both,     ///< from the first port to the second: on two cores with a worker lcore, else in turns on one
};

/// The contents of the frames. The functions are called once for each burst: fill() by the core that sends, take() by
/// the core that receives.
class RawFrames {
 public:
  virtual ~RawFrames() = default;
  /// Writes whole frames, Ethernet header to the end. Their bytes are those of an earlier frame, or any.
  virtual void fill(std::span<const std::span<std::byte>> frames) = 0;
  /// Reads frames that have arrived, and returns how many of them are the test's.
  virtual uint64_t take(std::span<const std::span<const std::byte>> frames) = 0;
};

struct RawOptions {
  RawRole role = RawRole::both;
  uint32_t frame_bytes = 4096;  ///< Ethernet header to the end, without preamble and FCS; 60 or more
  std::chrono::nanoseconds duration = std::chrono::seconds(1);
  /// How long the port may stay down, or one side may wait for the other's first frame.
  std::chrono::nanoseconds timeout = std::chrono::seconds(10);
  /// Called every few milliseconds; true ends the run early with the frames counted so far. Empty: never.
  std::function<bool()> stop{};
  /// Called once, in the thread of the test, when frames pass: the first has been sent, received or returned.
  std::function<void()> started{};
  int mtu = 0;                ///< as StackOptions::mtu
  bool back_to_back = false;  ///< as StackOptions::back_to_back; for RawRole::both
  bool busy = false;          ///< as IdlePolicy::busy; else the core is given away after a while without work
  uint32_t rx_descriptors = 1024;
  uint32_t tx_descriptors = 1024;
};

}  // namespace uroce::glue
