// Congestion control: how much a queue pair may have on the way, and how fast it may send.
//
// One algorithm per file. A queue pair without one ("none") is bounded by its window alone and pays nothing.
#pragma once

#include <cstdint>
#include <memory>

#include <uroce/types.h>

#include "base/time.h"

namespace uroce::transport {

/// What one ACK, SACK or response told the sender.
struct AckSample {
  Nanos now{};
  Nanos rtt{};             ///< of one packet, unambiguous; 0: this one tells none
  uint32_t packets = 0;    ///< newly known to have arrived, in order or not
  uint32_t in_flight = 0;  ///< packets still out after it
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
  /// Nothing was heard for a whole retransmission timeout.
  virtual void on_timeout(Nanos now) = 0;
  /// A packet of `bytes` bytes, headers and all, leaves now.
  virtual void on_sent(uint32_t bytes, Nanos now) = 0;
  /// Packets that may be out, at least 1.
  virtual uint32_t window() const = 0;
  /// Bits per second, headers and all; 0: not paced.
  virtual uint64_t rate() const = 0;
  /// When on_timer() must be called; kNever: not.
  virtual Nanos next_deadline() const = 0;
  virtual void on_timer(Nanos now) = 0;
};

/// Parameters of all algorithms; the defaults are those that were published.
struct CongestionSettings {
  CongestionAlgorithm algorithm = CongestionAlgorithm::none;  ///< of queue pairs that do not choose
};

/// The state of a queue pair with packets of at most `packet_bytes`. Nullptr for none. `window`: packets, the most
/// that it may ever have out.
std::unique_ptr<CongestionControl> make_congestion_control(CongestionAlgorithm algorithm,
                                                           const CongestionSettings& settings, uint32_t packet_bytes,
                                                           uint32_t window, Nanos now);

}  // namespace uroce::transport
