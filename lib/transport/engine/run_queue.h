// The queue pairs of an engine that may have something to send, and those whose work requests are being flushed.
#pragma once

#include "transport/engine/fair_queue.h"

namespace uroce::transport {

/// The next one is read at every turn, so it is in the hot part.
struct RunLink {
  static Qp*& next(Qp& qp) { return qp.tx.next_in_run_queue; }
  static Qp*& previous(Qp& qp) { return qp.cold->previous_in_run_queue; }
  static bool& listed(Qp& qp) { return qp.on_run_queue; }
};
using RunQueue = FairQueue<RunLink>;

/// Flushing needs no room in the sink, so it does not wait in the run queue.
struct FlushLink {
  static Qp*& next(Qp& qp) { return qp.cold->next_in_flush_queue; }
  static Qp*& previous(Qp& qp) { return qp.cold->previous_in_flush_queue; }
  static bool& listed(Qp& qp) { return qp.cold->on_flush_queue; }
};
using FlushQueue = FairQueue<FlushLink>;

}  // namespace uroce::transport
