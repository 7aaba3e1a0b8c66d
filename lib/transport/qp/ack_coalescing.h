// ACK coalescing: a responder keeps only the newest acknowledgement that is due, because it acknowledges everything
// before it (C9-105).
#pragma once

#include <cstdint>

#include "base/psn.h"
#include "wire/headers.h"

namespace uroce::transport {

class PendingReply {
 public:
  /// Queues an ACK or a NAK for `psn`. False: the pending reply covers this ACK already.
  bool queue(Psn psn, uint8_t syndrome) {
    const bool is_ack = wire::Aeth{syndrome, 0}.kind() == wire::AethKind::ack;
    if (is_ack && pending_ && distance(psn, psn_) < 0) return false;
    psn_ = psn;
    syndrome_ = syndrome;
    pending_ = true;
    return true;
  }
  bool pending() const { return pending_; }
  Psn psn() const { return psn_; }
  uint8_t syndrome() const { return syndrome_; }
  wire::AethKind kind() const { return wire::Aeth{syndrome_, 0}.kind(); }
  void on_sent() { pending_ = false; }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [said, code, waiting] = *this;
    archive("psn", said);
    archive("syndrome", code);
    archive("pending", waiting);
  }

 private:
  Psn psn_{};
  uint8_t syndrome_ = 0;
  bool pending_ = false;
};

}  // namespace uroce::transport
