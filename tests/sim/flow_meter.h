// One flow's packets with payload as the fabric sees them, independent of what the engines at its ends believe.
#pragma once

#include <algorithm>
#include <bitset>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/psn.h"
#include "tests/sim/events.h"

namespace uroce::sim {

class FlowMeter {
 public:
  /// Windows of time are counted from `start`.
  FlowMeter(Picos start, Picos window) : start_(start), window_(window) {}

  /// The sender's engine gave the packet to its port.
  void on_sent(Psn psn) {
    ++sent_;
    if (newest_sent_ && distance(psn, *newest_sent_) <= 0) {
      ++retransmitted_;
    } else {
      newest_sent_ = psn;
    }
  }
  /// The receiver's port gave the packet to its engine.
  void on_received(Psn psn, uint32_t payload, Picos now) {
    if (!is_new(psn)) {
      ++spurious_;
      return;
    }
    const auto at = static_cast<std::size_t>(std::max(now - start_, Picos(0)) / window_);
    if (at >= windows_.size()) windows_.resize(at + 1);
    windows_[at] += payload;
  }

  uint64_t sent() const { return sent_; }
  uint64_t retransmitted() const { return retransmitted_; }
  /// Packets that arrived though they had arrived before: the fabric duplicates nothing, so they were sent again
  /// without need, or because the receiver had thrown them away.
  uint64_t spurious() const { return spurious_; }
  /// Payload bytes that arrived for the first time, by window of time.
  const std::vector<uint64_t>& windows() const { return windows_; }

 private:
  // More than any window of packets is long.
  static constexpr uint32_t kRemembered = 1 << 16;

  bool is_new(Psn psn) {
    if (!newest_received_) newest_received_ = psn - 1;
    for (int32_t ahead = distance(psn, *newest_received_); ahead > 0; --ahead) {
      ++*newest_received_;
      arrived_.reset(newest_received_->value() % kRemembered);
    }
    auto bit = arrived_[psn.value() % kRemembered];
    const bool is_new = !bit;
    bit = true;
    return is_new;
  }

  Picos start_;
  Picos window_;
  uint64_t sent_ = 0;
  uint64_t retransmitted_ = 0;
  uint64_t spurious_ = 0;
  std::optional<Psn> newest_sent_;
  std::optional<Psn> newest_received_;
  std::bitset<kRemembered> arrived_;
  std::vector<uint64_t> windows_;
};

}  // namespace uroce::sim
