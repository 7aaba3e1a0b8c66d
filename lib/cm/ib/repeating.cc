#include "cm/ib/repeating.h"

#include <algorithm>

#include "cm/ib/closing.h"
#include "cm/ib/timeouts.h"
#include "cm/ib/transitions.h"

namespace uroce::cm::repeating {

namespace {

CmOutcome give_up(CmContext& ctx, CmConnection& c, CmActions& actions) {
  switch (c.state) {
    case CmState::req_sent:
      closing::send_timeout_rej(ctx, c, actions);
      tell(c, CmEventKind::unreachable, actions);
      return close(c);
    case CmState::rep_sent:
      // The peer may have received the REP, and only its RTU was lost. Then its packets may be in the network.
      closing::send_timeout_rej(ctx, c, actions);
      tell(c, CmEventKind::unreachable, actions);
      return enter_timewait(c);
    case CmState::established: return closing::end_stale(ctx, c, actions);
    case CmState::dreq_sent: tell(c, CmEventKind::disconnected, actions); return enter_timewait(c);
    case CmState::sidr_sent: tell(c, CmEventKind::unreachable, actions); return close(c);
    default: return {};  // no timer runs in the other states
  }
}

}  // namespace

CmOutcome on_timer(CmContext& ctx, CmConnection& c, CmActions& actions) {
  if (c.state == CmState::timewait || c.state == CmState::closed) {
    if (c.state == CmState::timewait) tell(c, CmEventKind::timewait_exit, actions);
    return close(c);
  }
  if (c.state == CmState::established && c.probe == CmProbe::answered) {
    c.probe = CmProbe::none;
    return {};
  }
  if (c.retries_left == 0) return give_up(ctx, c, actions);
  --c.retries_left;
  CmOutcome out = send_again(ctx, c, actions);
  out.timer = CmOutcome::Timer::start;
  out.after = c.interval;
  return out;
}

CmOutcome ask_for_time(CmContext& ctx, CmConnection& c, CmActions& actions) {
  const bool waits = c.state == CmState::req_received || c.state == CmState::rep_received;
  if (!c.delivered || !waits || c.last) return {};
  const CmAnswered answered = c.active ? CmAnswered::rep : CmAnswered::req;
  c.last = make_mad(c.transaction_id, MraMad{c.id, c.remote_id, answered, kMraTimeout, {}});
  ctx.counters.mra_sent.add();
  send_last(c, actions);
  return {};
}

CmOutcome on_mra(CmContext& ctx, CmConnection& c, const MraMad& mra) {
  const bool to_req = mra.answered == CmAnswered::req;
  const bool fits =
      c.state == CmState::req_sent ? to_req : c.state == CmState::rep_sent && mra.answered == CmAnswered::rep;
  if (!fits || c.mra_received) {
    (fits ? ctx.counters.duplicates : ctx.counters.out_of_state).add();
    return {};
  }
  ctx.counters.mra_received.add();
  c.mra_received = true;
  const Nanos longer = cm_time(std::min(mra.service_timeout, kMaxMraTimeout)) + round_trip(c);
  return {.timer = CmOutcome::Timer::start, .after = longer};
}

}  // namespace uroce::cm::repeating
