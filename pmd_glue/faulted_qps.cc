#include "pmd_glue/faulted_qps.h"

#include "control/packet_sender.h"

namespace uroce::glue {

std::optional<uint32_t> FaultedQps::sender_of(faults::Way way, const wire::Packet& packet) {
  return control::sender_of(engine_, way == faults::Way::tx, packet);
}

void FaultedQps::end(uint32_t qpn, Nanos now) {
  bool ended = false;
  engine_.run([&](transport::Engine& engine) { ended = control::end_qp(engine, qpn); }, now);
  if (ended) device_.events().on_async_event(AsyncEventType::qp_fatal, qpn);
}

}  // namespace uroce::glue
