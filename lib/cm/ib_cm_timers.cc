// The timers of connections: repetitions, timeouts, time-wait.
#include <algorithm>

#include "cm/ib_cm_impl.h"

namespace uroce::cm {

/// The ACK timeout covers at least twice the packet lifetime on the path, and the time that the target takes to
/// acknowledge (IBTA vol. 1, 12.7.34).
Nanos IbCm::Impl::round_trip(const CmRecord& r) const {
  const uint8_t code = r.path().ack_timeout;
  return cm_time(std::min(code == 0 ? kUsualAckTimeout : code, kMaxPeerTimeout));
}

void IbCm::Impl::arm(CmRecord& r, Nanos deadline, Nanos now) {
  // The position of an idle wheel is in the past, and a wheel places nodes relative to its position: advance it first.
  // Not inside poll(), which is advancing the wheel itself: it would then find the node in the slot that it is
  // emptying.
  if (!polling && timers.next_deadline() == kNever) timers.advance(now, [](TimerNode&) {});
  timers.arm(r.timer, deadline);
}

/// Repeats `r.last` until it is answered. The interval is the peer's `timeout` (a code) and a round trip on the path.
void IbCm::Impl::repeat_until_answered(CmRecord& r, uint8_t timeout, Nanos now) {
  r.retries_left = r.request.max_cm_retries;
  r.interval = cm_time(timeout) + round_trip(r);
  arm(r, now + r.interval, now);
}

/// Packets of the connection may still be in the network. Its ids and the peer's queue pair number stay in use for the
/// lifetime of a packet (12.9.8.4).
void IbCm::Impl::enter_timewait(CmRecord& r, Nanos now) {
  stop_waiting(r);
  r.last.reset();
  r.state = CmState::timewait;
  const bool replied = r.active && r.remote_id != 0;
  const Nanos ack_delay = replied ? cm_time(std::min(r.reply.ack_delay, kMaxPeerTimeout)) : Nanos(0);
  arm(r, now + round_trip(r) + ack_delay, now);
}

/// Only the id remains, until destroy().
void IbCm::Impl::close(CmRecord& r) {
  stop_waiting(r);
  release_keys(r);
  timers.cancel(r.timer);
  r.last.reset();
  r.state = CmState::closed;
}

/// Closes the connection, but keeps `r.last` for `time` to answer the peer's repetitions. The peer may use its queue
/// pair for another attempt.
void IbCm::Impl::keep_answer(CmRecord& r, Nanos time, Nanos now) {
  stop_waiting(r);
  release_key(r, PeerKey::Space::qpn);
  r.state = CmState::closed;
  arm(r, now + time, now);
}

void IbCm::Impl::on_timer(CmRecord& r, Nanos now) {
  if (r.state == CmState::timewait || r.state == CmState::closed) {
    const bool was_timewait = r.state == CmState::timewait;
    close(r);
    if (!r.owned) return erase(r);
    if (was_timewait) raise_event(r, {.kind = CmEventKind::timewait_exit});
    return;
  }
  if (r.retries_left == 0) return give_up(r, now);
  --r.retries_left;
  send_again(r);
  arm(r, now + r.interval, now);
}

void IbCm::Impl::give_up(CmRecord& r, Nanos now) {
  switch (r.state) {
    case CmState::req_sent:
      send_timeout_rej(r);
      close(r);
      return raise_event(r, {.kind = CmEventKind::unreachable});
    case CmState::rep_sent:
      // The peer may have received the REP, and only its RTU was lost. Then its packets may be in the network.
      send_timeout_rej(r);
      enter_timewait(r, now);
      return raise_event(r, {.kind = CmEventKind::unreachable});
    case CmState::dreq_sent: enter_timewait(r, now); return raise_event(r, {.kind = CmEventKind::disconnected});
    case CmState::sidr_sent: close(r); return raise_event(r, {.kind = CmEventKind::unreachable});
    default: return;  // no timer runs in the other states
  }
}

}  // namespace uroce::cm
