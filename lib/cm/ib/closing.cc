#include "cm/ib/closing.h"

#include <algorithm>
#include <array>

#include "base/bytes.h"
#include "cm/ib/sidr.h"
#include "cm/ib/timeouts.h"
#include "cm/ib/transitions.h"

namespace uroce::cm::closing {

namespace {

CmAnswered rejected_message(CmState state) {
  switch (state) {
    case CmState::req_received: return CmAnswered::req;
    case CmState::req_sent:
    case CmState::rep_received: return CmAnswered::rep;
    default: return CmAnswered::other;
  }
}

CmOutcome send_dreq(CmContext& ctx, CmConnection& c, std::span<const std::byte> private_data, CmActions& actions) {
  c.state = CmState::dreq_sent;
  c.last = make_mad(ctx.transaction_ids.next(), DreqMad{c.id, c.remote_id, c.remote_qpn, private_data});
  ctx.counters.dreq_sent.add();
  send_last(c, actions);
  return repeat_until_answered(
      c, c.active ? c.request.remote_cm_timeout : std::min(c.request.local_cm_timeout, kMaxPeerTimeout));
}

bool has_ended(const CmConnection& c) { return c.state == CmState::timewait || c.state == CmState::closed; }

}  // namespace

void send_rej(CmContext& ctx, CmConnection& c, RejReason reason, std::span<const std::byte> info,
              std::span<const std::byte> private_data, CmActions& actions) {
  c.last = make_mad(c.transaction_id, RejMad{c.id, c.remote_id, rejected_message(c.state),
                                             static_cast<uint16_t>(reason), info, private_data});
  ctx.counters.rej_sent.add();
  send_last(c, actions);
}

/// It carries the CA's GUID, so that the peer finds the connection even if it does not know our id (12.6.7.2, code 4).
void send_timeout_rej(CmContext& ctx, const CmConnection& c, CmActions& actions) {
  std::array<std::byte, 8> guid;
  store_be64(guid.data(), ctx.ca_guid);
  const RejMad rej{c.id, c.remote_id, CmAnswered::other, static_cast<uint16_t>(RejReason::timeout), guid, {}};
  ctx.counters.rej_sent.add();
  actions.add<OutgoingMad>(c.path(), make_mad(c.transaction_id, rej));
}

Result<CmOutcome> reject(CmContext& ctx, CmConnection& c, RejReason reason, std::span<const std::byte> info,
                         std::span<const std::byte> private_data, CmActions& actions) {
  auto ok = check_state(c, "reject", {CmState::req_received, CmState::rep_received, CmState::sidr_received});
  if (ok) ok = check_private(info, kRejInfo, "REJ's additional information");
  if (ok && c.ud()) ok = check_private(private_data, kSidrRepPrivate, "SIDR_REP");
  if (ok && !c.ud()) ok = check_private(private_data, kRejPrivate, "REJ");
  if (!ok) return std::unexpected(ok.error());
  if (c.ud()) return sidr::reject(ctx, c, info, private_data, actions);
  send_rej(ctx, c, reason, info, private_data, actions);
  return keep_answer(c, cm_time(std::min(c.request.remote_cm_timeout, kMaxPeerTimeout)) + 2 * round_trip(c));
}

Result<CmOutcome> disconnect(CmContext& ctx, CmConnection& c, std::span<const std::byte> private_data,
                             CmActions& actions) {
  auto ok = check_private(private_data, kDreqPrivate, "DREQ");
  if (ok) {
    ok = check_state(c, "disconnect",
                     {CmState::rep_sent, CmState::rep_received, CmState::established, CmState::dreq_sent,
                      CmState::timewait, CmState::closed});
  }
  if (!ok) return std::unexpected(ok.error());
  if (c.state == CmState::dreq_sent || has_ended(c)) return CmOutcome{};
  return send_dreq(ctx, c, private_data, actions);
}

CmOutcome on_stale(CmContext& ctx, CmConnection& c, uint64_t guid, CmActions& actions) {
  ctx.counters.stale.add();
  const bool asks = c.state == CmState::established && !c.active && c.remote_guid == guid && c.probe == CmProbe::none;
  if (!asks) return {};
  c.probe = CmProbe::asked;
  send_again(ctx, c, actions);
  const CmOutcome out = repeat_until_answered(c, std::min(c.request.local_cm_timeout, kMaxPeerTimeout));
  c.retries_left = kProbeRepetitions;
  return out;
}

CmOutcome on_probe_answer(CmConnection& c) {
  c.probe = CmProbe::answered;
  return {.timer = CmOutcome::Timer::start, .after = cm_time(kProbeRest)};
}

CmOutcome end_stale(CmContext& ctx, CmConnection& c, CmActions& actions) { return send_dreq(ctx, c, {}, actions); }

CmOutcome destroy(CmContext& ctx, CmConnection& c, CmActions& actions) {
  c.owned = false;
  switch (c.state) {
    case CmState::req_sent: send_timeout_rej(ctx, c, actions); return close(c);
    case CmState::sidr_sent: return close(c);
    case CmState::req_received:
    case CmState::rep_received:
    case CmState::sidr_received: return *reject(ctx, c, RejReason::consumer_reject, {}, {}, actions);
    case CmState::rep_sent:
      // The peer may have received the REP and use the connection already.
      send_rej(ctx, c, RejReason::consumer_reject, {}, {}, actions);
      return enter_timewait(c);
    case CmState::established: return send_dreq(ctx, c, {}, actions);
    case CmState::dreq_sent:
    case CmState::timewait:
    case CmState::closed: break;
  }
  return {};
}

CmOutcome on_rej(CmContext& ctx, CmConnection& c, const RejMad& rej, CmActions& actions) {
  if (has_ended(c)) {
    ctx.counters.duplicates.add();
    return {};
  }
  ctx.counters.rej_received.add();
  const bool forgotten = c.state == CmState::established && c.probe == CmProbe::asked;
  if (c.state == CmState::dreq_sent || forgotten) {
    tell(c, CmEventKind::disconnected, actions);
  } else if (CmMessage* const event = tell(c, CmEventKind::rejected, actions)) {
    event->reason = rej.reason;
    event->info = copy_of(rej.info);
    event->private_data = copy_of(rej.private_data);
  }
  // Time-wait, if packets of the connection may still be in the network, or the queue pair is stale (12.9.8.3.1).
  const bool was_used =
      c.state == CmState::established || c.state == CmState::dreq_sent || c.state == CmState::rep_received;
  const bool stale = rej.reason == static_cast<uint16_t>(RejReason::stale_connection);
  return was_used || stale ? enter_timewait(c) : close(c);
}

CmOutcome on_dreq(CmContext& ctx, CmConnection& c, const DreqMad& dreq, const Mad& drep, CmActions& actions) {
  if (dreq.remote_qpn != c.local_qpn) {
    ctx.counters.malformed.add();
    return {};
  }
  const bool up = c.state == CmState::rep_sent || c.state == CmState::rep_received || c.state == CmState::established ||
                  c.state == CmState::dreq_sent;
  if (!up && !has_ended(c)) {
    ctx.counters.out_of_state.add();
    return {};
  }
  (up ? ctx.counters.dreq_received : ctx.counters.duplicates).add();
  ctx.counters.drep_sent.add();
  actions.add<OutgoingMad>(c.path(), drep);
  if (!up) return {};
  if (CmMessage* const event = tell(c, CmEventKind::disconnected, actions)) {
    event->private_data = copy_of(dreq.private_data);
  }
  return enter_timewait(c);
}

CmOutcome on_drep(CmContext& ctx, CmConnection& c, const DrepMad& drep, CmActions& actions) {
  if (c.state != CmState::dreq_sent) {
    (has_ended(c) ? ctx.counters.duplicates : ctx.counters.out_of_state).add();
    return {};
  }
  ctx.counters.drep_received.add();
  if (CmMessage* const event = tell(c, CmEventKind::disconnected, actions)) {
    event->private_data = copy_of(drep.private_data);
  }
  return enter_timewait(c);
}

}  // namespace uroce::cm::closing
