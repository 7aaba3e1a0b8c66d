// The loss recovery of one RC queue pair: the mechanisms of transport/loss, and the state that joins them.
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "base/time.h"
#include "transport/loss/loss_detector.h"
#include "transport/loss/peer_discovery.h"
#include "transport/loss/probe_timer.h"
#include "transport/loss/reorder_buffer.h"
#include "transport/loss/response_tracker.h"

namespace uroce::transport {

/// The request that the next SACK echoes: the newest one that caused an acknowledgement.
struct SackEcho {
  Psn psn{};
  uint8_t tag = 0;
  bool duplicate = false;
  Nanos at{};
};

/// The UDP source port of frames to the peer.
struct PortChoice {
  uint16_t peers = 0;      ///< the one that the peer asked for; 0: it takes any
  uint16_t wish = 0;       ///< the peer is asked for one near this; 0: it is not asked
  uint16_t peer_wish = 0;  ///< of frames from the peer, which waits for an answer; 0: it does not
  Nanos left_at{};         ///< when a dead path was left
};

struct alignas(64) Recovery {
  /// At most `window` packets are in flight. The engine lends the memory that only some queue pairs need at a time.
  explicit Recovery(uint32_t window) : requests_ahead(window), responses_ahead(window), loss(window) {}
  /// As new, for a connection that may have `open_window_` packets in flight. Both reorder buffers are empty.
  void reset(uint32_t open_window_) {
    loss.reset();
    responses = {};
    probe = {};
    discovery = {};
    port = {};
    echo = {};
    sack_due = false;
    ack_asked_at = {};
    heeded_rtt = {};
    open_window = open_window_;
  }

  // --- Requester: what each message touches, a cache line.
  ProbeTimer probe;
  Nanos ack_asked_at{};
  Nanos heeded_rtt{};            ///< CongestionControl::heeded_rtt(); 0: none
  uint32_t open_window = 0;      ///< packets that may be in flight: few after a timeout, more with each ACK
  bool short_of_memory = false;  ///< the engine had no memory for more than SendTimes::kFew packets in flight

  // --- Responder: another line.
  SackEcho echo;
  /// The next reply is a SACK: the peer may lack proof of us, which its epoch gives, or the last SACK had a bitmap.
  bool sack_due = false;
  ReorderBuffer requests_ahead;  ///< requests that came before their turn

  // --- Requester.
  ReorderBuffer responses_ahead;  ///< responses that came before their request was the oldest
  LossDetector loss;
  ResponseTracker responses;

  // --- Both.
  PeerDiscovery discovery;
  PortChoice port;
};

}  // namespace uroce::transport
