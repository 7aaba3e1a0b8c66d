// The queue pairs of connections on their way to RTS.
#include <cerrno>

#include "cm/manager_impl.h"
#include "control/qp.h"

namespace uroce::cm {

Result<StepsToRts> steps_to_rts(const Id& id) {
  const auto init = attributes_of(id, QpState::init);
  const auto rtr = attributes_of(id, QpState::rtr);
  const auto rts = attributes_of(id, QpState::rts);
  for (const auto* step : {&init, &rtr, &rts}) {
    if (!*step) return std::unexpected(step->error());
  }
  StepsToRts steps{message::ModifyStep{rtr->second, rtr->first}, message::ModifyStep{rts->second, rts->first}};
  // Only now is it known whether the peer may READ. The step to INIT was chosen when the queue pair was made.
  steps[0].attr.access = init->first.access;
  steps[0].mask |= QpAttrBit::access_flags;
  return steps;
}

Result<void> apply(control::ControlQp& qp, const StepsToRts& steps, std::chrono::nanoseconds patience) {
  for (const message::ModifyStep& step : steps) {
    if (auto moved = qp.modify(step.attr, step.mask, patience); !moved) return moved;
  }
  return {};
}

// The lock of `queue_pairs` is free again before the program that destroys the queue pair goes on.
void Manager::Impl::connect_queue_pair(Id& id, bool reachable) {
  CmEvent event = *std::exchange(id.answer, std::nullopt);
  const std::scoped_lock keep(id.owner->queue_pairs);
  const auto qp = std::exchange(id.qp, {}).lock();
  if (qp == nullptr) return raise_event(id, std::move(event));
  const auto steps = steps_to_rts(id);
  Result<void> done;
  if (!reachable) done = fail(EHOSTUNREACH, "the peer's Ethernet address is not known");
  if (done && !steps) done = std::unexpected(steps.error());
  if (done) done = apply(*qp, *steps, Nanos(0));
  if (done) done = carry_out(*id.agent, id.agent->cm.ready(id.connection, {}, now));
  if (done) {
    id.state = IdState::connected;
    event.type = CmEventType::established;
  } else {
    (void)qp->to_error();
    event = {.type = CmEventType::connect_error, .status = -done.error().code};
  }
  raise_event(id, std::move(event));
}

}  // namespace uroce::cm
