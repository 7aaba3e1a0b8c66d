#include "transport/rc/acknowledge.h"

#include "transport/core/guess.h"
#include "transport/qp/work_queue.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/completer.h"
#include "transport/rc/congestion.h"
#include "transport/rc/hello.h"
#include "transport/rc/lost_packets.h"
#include "transport/rc/sack.h"
#include "transport/rc/timeout.h"

namespace uroce::transport {
namespace {

// --- NAKs and RNR NAKs (9.7.5.2 and table 57) ----------------------------------------------------------------------

WcStatus status_of(wire::NakCode code) {
  switch (code) {
    case wire::NakCode::invalid_request: return WcStatus::remote_invalid_request;
    case wire::NakCode::remote_access: return WcStatus::remote_access_error;
    case wire::NakCode::remote_operational: return WcStatus::remote_operation_error;
    default: return WcStatus::bad_response;
  }
}

Outcome on_sequence_error(Context& ctx, Qp& qp, Psn psn, bool responses_missing) {
  // Contrary to 9.7.5.2.8, Linux rxe sends a sequence error NAK for packets behind one that got an RNR NAK. All of them
  // are sent again after the RNR wait.
  if (qp.tx.rnr_waiting) return {};
  Outcome out;
  if (qp.selective) out |= distrust_peer(ctx, qp);
  qp.tx.recovery->loss.set_cause(Cause::nak);
  if (!responses_missing) return out | retry_from(ctx, qp, psn);
  rewind_to(qp, psn);
  return out | Outcome::wake();
}

// `responses_missing`: responses before the NAK have not arrived. Requesting them again spends no retry, because the
// ACK timer limits it.
Outcome on_nak(Context& ctx, Qp& qp, const wire::Packet& packet, bool responses_missing) {
  const auto code = static_cast<wire::NakCode>(packet.aeth.code());
  const bool sequence_error = code == wire::NakCode::psn_sequence;
  // 9.7.5.1.1: the responses before an error come first.
  if (responses_missing && !sequence_error) return {};
  ctx.counters.add_nak_received(code);
  if (sequence_error) return on_sequence_error(ctx, qp, packet.bth.psn, responses_missing);
  return Outcome::fail(Failure::requester, status_of(code));
}

Outcome on_rnr_nak(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& tx = qp.tx;
  ctx.counters.rnr_naks_received.add();
  if (tx.rnr_waiting) return {};
  if (!tx.retries.spend_rnr(qp.retry_cnt, qp.rnr_retry)) {
    return Outcome::fail(Failure::requester, WcStatus::rnr_retry_exceeded);
  }
  tx.rnr_waiting = true;
  const Outcome out = set_deadline(qp, ctx.now + rnr_delay(packet.aeth.code()));
  // A uroce peer has kept the packets behind the refused one.
  if (qp.selective) return out | mark_lost(qp, packet.bth.psn, Cause::nak);
  rewind_to(qp, packet.bth.psn);
  return out | Outcome::wake();
}

// --- ACKs and SACKs ---------------------------------------------------------------------------------------------

// The part that ACKs and SACKs share. `executed`: the peer expects this PSN next.
[[gnu::always_inline]] inline Outcome on_reply(Context& ctx, Qp& qp, const wire::Packet& packet, Psn executed) {
  Outcome out = acknowledge_until(ctx, qp, executed);
  if (out.failed()) return out;
  // Responses that the peer sent before this reply have not arrived. Their requests have.
  const bool responses_missing = distance(executed, qp.tx.una) > 0;
  if (responses_missing) out |= detect_missing_responses(ctx, qp, executed);
  if (packet.aeth.is_ack()) [[likely]]
    return out | Outcome::wake_if(qp.tx.credits.update(packet.aeth) && has_unsent(qp));
  switch (packet.aeth.kind()) {
    case wire::AethKind::rnr_nak: return out | on_rnr_nak(ctx, qp, packet);
    case wire::AethKind::nak: return out | on_nak(ctx, qp, packet, responses_missing);
    default: ctx.count_drop(wire::Drop::response_unexpected); return out;
  }
}

Outcome drop(Context& ctx, wire::Drop reason) {
  ctx.count_drop(reason);
  return {};
}

// The part of a SACK that an ACK in its place has, too.
Outcome on_arrivals(Context& ctx, Qp& qp, const wire::Packet& packet, const wire::Sack& sack) {
  auto& tx = qp.tx;
  Recovery& r = *tx.recovery;
  if (distance(sack.base, tx.acked) < 0) return drop(ctx, wire::Drop::response_stale);
  if (r.loss.is_late(sack, tx.sent) && r.loss.counts().cause != Cause::hole) r.probe.on_late(r.loss.rtt());
  const auto rtt = r.loss.on_echo(sack, tx.sent, ctx.now);
  if (!rtt) return drop(ctx, wire::Drop::sack_invalid);
  if (sack.duplicate && sack.echo_tag != 0) {
    ctx.counters.spurious_retransmissions.add();
    r.loss.on_spurious(qp.selective);
  }
  const uint32_t arrived = r.loss.on_sack(sack, tx.una, tx.acked);
  Outcome out = on_reply(ctx, qp, packet, sack.base);
  if (out.failed()) return out;
  out |= detect_lost_requests(ctx, qp);
  if (r.loss.shows_rest_lost(sack, tx.sent)) {
    out |= detect_missing_responses(ctx, qp, sack.base, 1);
    if (packet.aeth.kind() == wire::AethKind::ack)
      out |= sack.words == 0 ? send_rest_again(ctx, qp, sack.base) : mark_unreported(ctx, qp);
  }
  return heeds_ack(qp, *rtt) ? out | report_ack(ctx, qp, *rtt, arrived) : out;
}

}  // namespace

Outcome on_ack(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const auto& tx = qp.tx;
  const Psn psn = packet.bth.psn;
  const bool ack = packet.aeth.is_ack();
  if (ack) ctx.counters.acks_received.add();
  // 9.7.5.1.3: ghost and duplicate ACKs are dropped.
  if (distance(psn, tx.sent) >= 0 || distance(psn, tx.una) < (ack ? -1 : 0)) {
    count_if_psn_is_guessed(ctx, packet, tx.una);
    return drop(ctx, wire::Drop::response_stale);
  }
  const Psn before = tx.una;
  Nanos rtt{0};
  if (ack && distance(psn, tx.una) >= 0) {
    LossDetector& loss = tx.recovery->loss;
    rtt = qp.selective ? loss.sample_plain_ack(psn, tx.sent, ctx.now) : loss.sample_rtt(psn, tx.sent, ctx.now);
    if (qp.selective && rtt == Nanos(0)) return on_arrivals(ctx, qp, packet, sack_of(psn));
  }
  // 9.7.5.2: a NAK acknowledges all packets before its own.
  const Outcome out = on_reply(ctx, qp, packet, ack ? psn + 1 : psn);
  if (out.failed() || !heeds_ack(qp, rtt)) [[likely]]
    return out;
  return out | report_ack(ctx, qp, rtt, static_cast<uint32_t>(distance(tx.una, before)));
}

Outcome on_sack(Context& ctx, Qp& qp, const wire::Packet& packet) {
  ctx.counters.sacks_received.add();
  wire::Sack sack;
  const Credit credit = load_sack(qp, packet, sack);
  if (credit != Credit::full) {
    ctx.count_drop(wire::Drop::sack_invalid);
    if (credit == Credit::foreign) return renew_epoch(ctx, qp);
    count_guess(ctx, packet, Guess::epoch);
    return {};
  }
  Outcome out;
  if (!qp.selective) {
    // A sender that knows our epoch has received our HELLO, though its own may be lost.
    const auto proof = qp.tx.recovery->discovery.on_epoch_named(ctx.now);
    if (!proof) return drop(ctx, wire::Drop::sack_invalid);
    out |= trust_peer(ctx, qp, *proof);
  }
  return out | on_arrivals(ctx, qp, packet, sack);
}

}  // namespace uroce::transport
