#include "transport/engine/dispatcher.h"

#include "transport/qp/error.h"

namespace uroce::transport {

void Dispatcher::fail(Qp& qp, Outcome found) {
  Outcome rest = stop_qp(ctx_, qp, found);
  // A flush may find a completion queue full in its turn; that changes the state once more, and then ends.
  if (rest.failed()) rest |= stop_qp(ctx_, qp, rest);
  if (found.has(Outcome::kReport)) ctx_.events.on_async_event(found.event(), qp.qpn);
  // Timers that were set before the failure are stopped by what followed it.
  found |= rest;
  act(qp, found);
}

}  // namespace uroce::transport
