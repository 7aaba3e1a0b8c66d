// What happens when nothing happens: repetitions, giving up, time-wait.
#include <algorithm>

#include "cm/ib_cm_impl.h"

namespace uroce::cm {

/// At least twice a packet's life on the path and the time that its target takes to acknowledge: what the ACK timeout
/// is made of (IBTA vol. 1, 12.7.34).
Nanos IbCm::Impl::round_trip(const CmRecord& r) const {
  const uint8_t code = r.path().ack_timeout;
  return cm_time(std::min(code == 0 ? kUsualAckTimeout : code, kMaxPeerTimeout));
}

void IbCm::Impl::arm(CmRecord& r, Nanos deadline, Nanos now) {
  // An idle wheel has stood still, and deadlines are counted from where it stands. While it turns it must be left
  // alone: it would find what is armed here in the slot that it is emptying.
  if (!turning && timers.next_deadline() == kNever) timers.advance(now, [](TimerNode&) {});
  timers.arm(r.timer, deadline);
}

/// `r.last` was sent; the peer answers within `timeout` (a code) of getting it, and gets it and answers on the path.
void IbCm::Impl::repeat_until_answered(CmRecord& r, uint8_t timeout, Nanos now) {
  r.retries_left = r.request.max_cm_retries;
  r.interval = cm_time(timeout) + round_trip(r);
  arm(r, now + r.interval, now);
}

/// Packets of the connection may still be on their way: its ids and the peer's queue pair number rest for as long as
/// one lives (12.9.8.4).
void IbCm::Impl::enter_timewait(CmRecord& r, Nanos now) {
  stop_waiting(r);
  r.last.reset();
  r.state = CmState::timewait;
  const bool replied = r.active && r.remote_id != 0;
  const Nanos ack_delay = replied ? cm_time(std::min(r.reply.ack_delay, kMaxPeerTimeout)) : Nanos(0);
  arm(r, now + round_trip(r) + ack_delay, now);
}

/// Nothing is left of the connection but the id, until that is destroyed.
void IbCm::Impl::close(CmRecord& r) {
  stop_waiting(r);
  release_keys(r);
  timers.cancel(r.timer);
  r.last.reset();
  r.state = CmState::closed;
}

/// Closed, but `r.last` ends the peer's repetitions for `time`. Its queue pair is free for another attempt.
void IbCm::Impl::keep_answer(CmRecord& r, Nanos time, Nanos now) {
  stop_waiting(r);
  release_key(r, PeerKey::Space::qpn);
  r.state = CmState::closed;
  arm(r, now + time, now);
}

void IbCm::Impl::on_timer(CmRecord& r, Nanos now) {
  if (r.state == CmState::timewait || r.state == CmState::closed) {
    const bool told = r.state == CmState::timewait;
    close(r);
    if (!r.owned) return erase(r);
    if (told) tell(r, {.kind = CmEventKind::timewait_exit});
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
      return tell(r, {.kind = CmEventKind::unreachable});
    case CmState::rep_sent:
      // The peer may have had our REP, and its RTU got lost: then its packets are under way.
      send_timeout_rej(r);
      enter_timewait(r, now);
      return tell(r, {.kind = CmEventKind::unreachable});
    case CmState::dreq_sent: enter_timewait(r, now); return tell(r, {.kind = CmEventKind::disconnected});
    case CmState::sidr_sent: close(r); return tell(r, {.kind = CmEventKind::unreachable});
    default: return;  // no timer runs in the others
  }
}

}  // namespace uroce::cm
