// An engine's end of a completion queue: its own ring in it, so that each ring has one producer.
#pragma once

#include <cstdint>

#include "queues/ring.h"
#include "transport/core/seam.h"

namespace uroce::transport {

class CqWriter {
 public:
  CqWriter(uint32_t cq_id, queues::CqHeader* header, queues::RingPlace ring)
      : cq_id_(cq_id), header_(header), ring_(ring) {}

  uint32_t id() const { return cq_id_; }

  /// Writes one completion and fires the channel if it is armed for it. `solicited` is true for a solicited
  /// receive and for every error. False when the ring is full: the queue is in error from then on (C11-? CQ
  /// overrun) and the caller moves the QP to error; the first time cq_error is reported.
  bool write(const queues::Cqe& cqe, bool solicited, EngineEvents& events);

  bool overrun() const { return overrun_; }
  /// Engine's thread: goes on in another ring with what was not polled yet. False where that does not fit.
  bool move(queues::RingPlace to) { return ring_.move(to); }
  uint32_t used() { return ring_.used(); }

 private:
  uint32_t cq_id_;
  bool overrun_ = false;
  queues::CqHeader* header_;
  queues::RingProducer ring_;
};

}  // namespace uroce::transport
