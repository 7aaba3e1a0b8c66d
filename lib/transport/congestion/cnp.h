// Congestion notification packets (IBTA annex A17.9): how often one queue pair sends them, and reacts to them.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/time.h"

namespace uroce::transport {

class CnpLimiter {
 public:
  /// The ECN field of a packet from a switch that is congested (RFC 3168).
  static constexpr uint8_t kCongestionExperienced = 3;
  /// The bytes of a CNP behind its BTH, all zero.
  static constexpr uint32_t kReservedBytes = 16;

  /// A marked data packet arrived. True: a CNP is due. `interval_us`: the least time between two CNPs; 0: send none.
  bool on_mark(Nanos now, uint32_t interval_us) {
    if (interval_us == 0 || now < next_cnp_) return false;
    next_cnp_ = now + std::chrono::microseconds(interval_us);
    return true;
  }
  void on_sent() { ++sent_; }
  void on_received() { ++received_; }
  /// A paced data packet has left, which a switch may mark.
  void on_data() {
    if (unmarked_ < kMostUnmarked) ++unmarked_;
  }
  /// A CNP arrived for a QP with congestion control. True: the QP reacts. A CNP within half an interval of the one
  /// before is ignored. Half, because a CNP that travels faster arrives closer to the one before than it left. There
  /// are no more CNPs than data packets, so more are forged. `paced`: data packets were told of by on_data().
  bool heed(Nanos now, uint32_t interval_us, bool paced) {
    constexpr uint32_t kUsualInterval = 50;
    if (now < next_reaction_) return false;
    if (!paced) unmarked_ = kMostUnmarked;
    if (unmarked_ == 0) return false;
    --unmarked_;
    next_reaction_ = now + std::chrono::microseconds(interval_us != 0 ? interval_us : kUsualInterval) / 2;
    return true;
  }

  uint64_t sent() const { return sent_; }
  uint64_t received() const { return received_; }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [next_cnp, next_reaction, unmarked, sent, received] = *this;
    archive.moment("next_cnp", next_cnp);
    archive.moment("next_reaction", next_reaction);
    archive("unmarked", unmarked, 0, kMostUnmarked);
    archive("sent", sent);
    archive("received", received);
  }

 private:
  /// Data packets of which no CNP has told, at most: those of a few round trips.
  static constexpr uint32_t kMostUnmarked = 64;

  Nanos next_cnp_{0};       // marks are reported again from then on
  Nanos next_reaction_{0};  // CNPs count again from then on
  uint32_t unmarked_ = kMostUnmarked;
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

}  // namespace uroce::transport
