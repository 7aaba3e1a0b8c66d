#include "control/completion_faults.h"

#include <utility>

#include "control/completion_listener.h"
#include "control/cq.h"

namespace uroce::control {

namespace {

/// The caller holds the control lock.
Cq* find_queue(Device& device, uint32_t id) {
  CompletionListener* const listener = device.objects().cqs().find(id);
  return listener != nullptr ? listener->queue() : nullptr;
}

/// The caller holds the control lock.
template <class Work>
void at_queues(Device& device, Work work) {
  for (const uint32_t id : device.events().objects(EventObject::cq)) {
    if (Cq* const cq = find_queue(device, id)) work(*cq);
  }
}

}  // namespace

Result<void> hold_completions(Device& device, CompletionRules* rules) {
  const auto lock = device.runner().lock();
  device.set_completion_rules(rules);
  Result<void> done;
  at_queues(device, [&](Cq& cq) {
    if (auto one = rules != nullptr ? cq.hold() : cq.let_go(); !one) done = std::move(one);
  });
  return done;
}

void release_completions(Device& device, Nanos now) {
  const auto lock = device.runner().lock();
  if (device.completion_rules() == nullptr) return;
  at_queues(device, [&](Cq& cq) {
    (void)cq.hold();  // again, where it did not go on in another daemon
    cq.release(*device.completion_rules(), now);
  });
}

void wake_completion_queue(Device& device, uint32_t id) {
  const auto lock = device.runner().lock();
  if (Cq* const cq = find_queue(device, id)) cq->raise();
}

void overrun_completion_queue(Device& device, uint32_t id) {
  const auto lock = device.runner().lock();
  if (Cq* const cq = find_queue(device, id)) cq->fail_by_overrun();
}

}  // namespace uroce::control
