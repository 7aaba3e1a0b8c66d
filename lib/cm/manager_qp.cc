// The queue pairs of connections on their way to RTS.
#include <cerrno>
#include <utility>

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

Id* Manager::Impl::find_answered(uint32_t number) const {
  const auto found = ids.find(number);
  return found != ids.end() && found->second->answer ? found->second.get() : nullptr;
}

std::optional<MovingQp> Manager::Impl::next_moving() {
  const Guard guard(*this);
  for (std::size_t left = looked_for.size(); left > 0; --left) {
    const auto [number, reachable] = looked_for.front();
    looked_for.pop_front();
    Id* const id = find_answered(number);
    if (id == nullptr) continue;
    MovingQp next{.keep{id->owner->queue_pairs, std::try_to_lock}, .qp{}, .id = number, .steps{}};
    if (!next.keep.owns_lock()) {
      looked_for.emplace_back(number, reachable);
      continue;
    }
    next.qp = id->qp.lock();
    if (next.qp == nullptr) {
      raise_event(*id, *std::exchange(id->answer, std::nullopt));
      continue;
    }
    next.steps = steps_to_rts(*id);
    if (!reachable) next.steps = fail(EHOSTUNREACH, "the peer's Ethernet address is not known");
    return next;
  }
  planned.store(deadline(), std::memory_order_relaxed);
  return std::nullopt;
}

// The program may use the queue pair of an id that has ended for another.
bool Manager::Impl::still_answered(uint32_t number) {
  const Guard guard(*this);
  return find_answered(number) != nullptr;
}

void Manager::Impl::connect_queue_pairs() {
  if (looked_for.empty() || std::exchange(moving, true)) return;
  while (const auto next = next_moving()) {
    Result<void> done;
    if (!next->steps) done = std::unexpected(next->steps.error());
    if (done) done = apply(*next->qp, *next->steps, Nanos(0));
    if (!done && still_answered(next->id)) (void)next->qp->to_error();
    const Guard guard(*this);
    end_move(*next, std::move(done));
  }
  moving = false;
}

// The connection, the id and its program may have ended meanwhile.
void Manager::Impl::end_move(const MovingQp& moved, Result<void> done) {
  Id* const waiting = find_answered(moved.id);
  if (waiting == nullptr) return;
  Id& id = *waiting;
  CmEvent event = *std::exchange(id.answer, std::nullopt);
  id.qp.reset();
  if (done) {
    done = carry_out(*id.agent, id.agent->cm.ready(id.connection, {}, now));
    if (!done) (void)moved.qp->to_error();
  }
  if (done) {
    id.state = IdState::connected;
    event.type = CmEventType::established;
  } else {
    event = {.type = CmEventType::connect_error, .status = -done.error().code};
  }
  raise_event(id, std::move(event));
}

}  // namespace uroce::cm
