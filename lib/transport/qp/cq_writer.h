// An engine's end of a completion queue. Each engine has a ring of its own in it, so that each ring has one producer.
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

  /// Writes one completion, and reports a completion event if the queue is armed for it. `solicited` is true for a
  /// solicited receive and for every error. False: the ring is full. The queue is in error from then on (CQ overrun,
  /// C11-39), cq_error is reported the first time, and the caller fails the QP.
  bool write(const queues::Cqe& cqe, bool solicited, EngineEvents& events);

  /// Engine's thread: moves the completions that were not polled yet to another ring, and goes on there. False: they do
  /// not fit.
  bool move(queues::RingPlace to) { return ring_.move(to); }
  uint32_t used() { return ring_.used(); }

 private:
  uint32_t cq_id_;
  bool overrun_ = false;
  queues::CqHeader* header_;
  queues::RingProducer ring_;
};

}  // namespace uroce::transport
