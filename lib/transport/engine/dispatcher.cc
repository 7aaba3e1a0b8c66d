#include "transport/engine/dispatcher.h"

#include "transport/qp/error.h"

namespace uroce::transport {

void Dispatcher::fail(Qp& qp, Outcome found) {
  Outcome rest = stop_qp(ctx_, qp, found);
  // The flush may find a completion queue full, which is a second failure. There is no third: the QP is in error then.
  if (rest.failed()) rest |= stop_qp(ctx_, qp, rest);
  if (found.has(Outcome::kReport)) ctx_.events.on_async_event(found.event(), qp.qpn);
  // kStopTimers of `rest` also stops the timers that `found` sets.
  found |= rest;
  act(qp, found);
}

}  // namespace uroce::transport
