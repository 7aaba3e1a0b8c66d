// Congestion control: how many packets a queue pair may have in flight, and how fast it may send them.
//
// One algorithm per file. A queue pair without an algorithm ("none") is bounded by its window alone and pays nothing.
// An algorithm stores its decisions in plain members, so that a packet costs no indirect call.
#pragma once

#include <cstdint>

#include <uroce/congestion.h>

#include "base/time.h"
#include "transport/congestion/congested_rounds.h"

namespace uroce::transport {

/// The information of one ACK, SACK or response.
struct AckSample {
  Nanos now{};
  Nanos rtt{};           ///< of one packet; 0: not measured, or ambiguous
  uint32_t packets = 0;  ///< newly known to have arrived, in order or not; 0: the RTT is not of a data packet
};

/// State and decisions of one queue pair. All calls come from its engine's thread.
class CongestionControl {
 public:
  virtual ~CongestionControl() = default;
  virtual void on_ack(const AckSample& sample) = 0;
  /// The peer saw congestion marks (IBTA annex A17.9).
  virtual void on_cnp(Nanos now) = 0;
  /// Packets were lost; called at most once per round trip.
  virtual void on_loss(Nanos now) = 0;
  /// Nothing has arrived from the peer for a whole retransmission timeout.
  virtual void on_timeout(Nanos now) = 0;
  /// Brings the decisions up to date, in at most a fixed number of steps. To be called before the rate is used at or
  /// after next_deadline(). No wake-up is needed for it.
  virtual void on_timer(Nanos now) = 0;

  /// A packet of `bytes` bytes, headers and all, leaves now.
  void on_sent(uint32_t bytes, Nanos now) {
    bytes_left_ -= bytes;
    if (bytes_left_ < 0) [[unlikely]]
      on_bytes(now);
  }
  /// on_ack() does nothing for a round trip that was measured and takes so long, or longer.
  Nanos heeded_rtt() const { return heeded_rtt_; }
  /// Those of the present path follow each other.
  CongestedRounds& congested_rounds() { return congested_rounds_; }
  /// Packets that may be in flight, at least 1.
  uint32_t window() const { return window_; }
  /// Bits per second, headers and all; 0: not paced.
  uint64_t rate() const { return rate_; }
  /// When on_timer() has something to do; kNever: nothing.
  Nanos next_deadline() const { return next_deadline_; }

  template <class Archive>
  void persist(Archive& archive, uint32_t most_window, uint64_t most_rate) {
    archive("window", window_, 1u, most_window);
    archive("rate", rate_, uint64_t{0}, most_rate);
    archive("bytes_left", bytes_left_, int64_t{0}, INT64_MAX);
    archive.deadline("next_deadline", next_deadline_);
  }

 protected:
  /// bytes_left_ bytes have left.
  virtual void on_bytes(Nanos now) {
    (void)now;
    bytes_left_ = INT64_MAX;
  }
  uint32_t window_ = 1;
  uint64_t rate_ = 0;
  int64_t bytes_left_ = INT64_MAX;
  Nanos next_deadline_ = kNever;
  Nanos heeded_rtt_ = kNever;
  CongestedRounds congested_rounds_;
};
static_assert(sizeof(CongestionControl) == 64, "a new member? name it in persist(), then adapt this size");

/// Do data packets of the algorithm's queue pairs allow switches to mark them (ECT)?
constexpr bool reacts_to_marks(CongestionAlgorithm algorithm) { return algorithm == CongestionAlgorithm::dcqcn; }

}  // namespace uroce::transport
