#include "cm/ib/transitions.h"

#include <algorithm>

#include "cm/ib/timeouts.h"

namespace uroce::cm {

namespace {

/// The ACK timeout covers at least twice the packet lifetime on the path, and the time that the target takes to
/// acknowledge (IBTA vol. 1, 12.7.34).
uint8_t round_trip_code(const CmConnection& c) {
  const uint8_t code = c.path().ack_timeout;
  return std::min(code == 0 ? kUsualAckTimeout : code, kMaxPeerTimeout);
}

}  // namespace

Nanos round_trip(const CmConnection& c) { return cm_time(round_trip_code(c)); }

CmMessage* tell(const CmConnection& c, CmEventKind kind, CmActions& actions) {
  if (!c.owned) return nullptr;
  auto& event = actions.add<CmMessage>();
  event.kind = kind;
  event.id = c.id;
  return &event;
}

CmOutcome send_again(CmContext& ctx, const CmConnection& c, CmActions& actions) {
  ctx.counters.resent.add();
  send_last(c, actions);
  return {};
}

CmOutcome repeat_until_answered(CmConnection& c, uint8_t timeout) {
  c.retries_left = c.request.max_cm_retries;
  c.interval = cm_time(timeout) + round_trip(c);
  return {.timer = CmOutcome::Timer::start, .after = c.interval};
}

CmOutcome enter_timewait(CmConnection& c) {
  c.last.reset();
  c.state = CmState::timewait;
  const bool replied = c.active && c.remote_id != 0;
  const Nanos ack_delay = replied ? cm_time(std::min(c.reply.ack_delay, kMaxPeerTimeout)) : Nanos(0);
  return {.timer = CmOutcome::Timer::start,
          .answered = true,
          .after = cm_time(std::max(round_trip_code(c), kLeastTimeWait)) + ack_delay};
}

CmOutcome close(CmConnection& c) {
  c.last.reset();
  c.state = CmState::closed;
  return {.timer = CmOutcome::Timer::stop, .keys = CmOutcome::Keys::free, .answered = true};
}

CmOutcome keep_answer(CmConnection& c, Nanos time) {
  c.state = CmState::closed;
  return {.timer = CmOutcome::Timer::start, .keys = CmOutcome::Keys::free_qpn, .answered = true, .after = time};
}

}  // namespace uroce::cm
