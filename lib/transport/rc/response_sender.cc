#include "transport/rc/response_sender.h"

#include <algorithm>

#include "transport/qp/memory_access.h"
#include "transport/qp/peer_frame.h"
#include "transport/rc/congestion.h"
#include "transport/rc/sack.h"

namespace uroce::transport {
namespace {

using wire::Opcode;

// `more`: other responses follow.
void send_atomic_ack(Context& ctx, Qp& qp, PeerHeaders& headers, const Resource& resource, bool more) {
  TxFrame& frame = ctx.builder.next();
  std::byte* const extended = headers.write(frame, opcode_of(qp, Opcode::rc_atomic_ack), resource.first_psn,
                                            wire::Aeth::kBytes + wire::kAtomicAckEthBytes, {}, more);
  store_aeth(extended, qp, wire::Aeth::ack(0), resource.msn);
  store_be64(extended + wire::Aeth::kBytes, resource.atomic_result);
  ctx.builder.add(frame);
}

Opcode read_opcode(bool first, bool last) {
  if (first) return last ? Opcode::rc_read_response_only : Opcode::rc_read_response_first;
  return last ? Opcode::rc_read_response_last : Opcode::rc_read_response_middle;
}

// One packet of a READ response. False: the region has gone. `more`: other responses follow.
bool send_read_response(Context& ctx, Qp& qp, PeerHeaders& headers, const Resource& resource, ResponseJob& job,
                        bool more) {
  const uint32_t offset = job.next << qp.mtu_shift;
  const uint32_t length = std::min(resource.length - offset, qp.mtu());
  TxFrame& frame = ctx.builder.next();
  if (length > 0) {
    const auto place =
        ctx.regions.translate(resource.rkey, resource.pd, resource.va + offset, length, Access::remote_read, qp.qpn);
    if (place.result != memory::AccessResult::ok) return false;
    // The memory may be written while the peer READs it. The ICRC must cover the bytes that leave, so they are copied.
    frame.copy_payload = true;
    ctx.builder.add_payload(frame, place.host, length);
  }
  const bool last = job.next + 1 == job.end;
  const bool has_aeth = job.at_start || last;
  std::byte* const extended =
      headers.write(frame, opcode_of(qp, read_opcode(job.at_start, last)), resource.first_psn + job.next,
                    has_aeth ? wire::Aeth::kBytes : 0, {.ecn = qp.ecn}, more || !last);
  if (has_aeth) store_aeth(extended, qp, wire::Aeth::ack(0), resource.msn);
  ctx.builder.add(frame);
  if (qp.ecn != 0) charge_data(ctx, qp, frame);
  job.at_start = false;
  ++job.next;
  return true;
}

// The shortcut for the response of one packet to a READ: send_read_response() without what only several need. False: it
// is another one, or the region has gone.
bool send_only(Context& ctx, Qp& qp, PeerHeaders& headers, const Resource& resource, ResponseJob& job, bool more) {
  const uint32_t length = resource.length;
  if (!ctx.config.plain_path || job.next != 0 || job.end != 1 || length - 1 >= qp.mtu() || qp.ecn != 0) return false;
  const auto place =
      ctx.regions.translate(resource.rkey, resource.pd, resource.va, length, Access::remote_read, qp.qpn);
  if (place.result != memory::AccessResult::ok) return false;
  TxFrame& frame = ctx.builder.next(place.host, length);
  frame.copy_payload = true;
  store_aeth(headers.write(frame, opcode_of(qp, Opcode::rc_read_response_only), resource.first_psn, wire::Aeth::kBytes,
                           {}, more),
             qp, wire::Aeth::ack(0), resource.msn);
  ctx.builder.add(frame);
  ++job.next;
  return true;
}

// The shortcut for the packets in the middle of a READ response: send_read_response() again and again, with one look-up
// of the region. Returns whether it sent any.
bool send_middles(Context& ctx, Qp& qp, PeerHeaders& headers, const Resource& resource, ResponseJob& job) {
  if (!ctx.config.plain_path || job.at_start || job.next + 1 >= job.end) return false;
  uint32_t left = job.end - 1 - job.next;
  const uint64_t from = resource.va + (uint64_t{job.next} << qp.mtu_shift);
  const uint64_t bytes = uint64_t{left} << qp.mtu_shift;
  const auto place = ctx.regions.translate(resource.rkey, resource.pd, from, bytes, Access::remote_read, qp.qpn);
  if (place.result != memory::AccessResult::ok) return false;
  const Opcode opcode = opcode_of(qp, Opcode::rc_read_response_middle);
  Psn psn = resource.first_psn + job.next;
  const std::byte* at = place.host;
  for (; left > 0 && !ctx.builder.full(); --left, ++psn, at += qp.mtu()) {
    TxFrame& frame = ctx.builder.next(at, qp.mtu());
    frame.copy_payload = true;
    headers.write(frame, opcode, psn, 0, {.ecn = qp.ecn}, left > 1);
    ctx.builder.add(frame);
  }
  job.next = job.end - 1 - left;
  return true;
}

// 9.7.5.2.4: the region has gone after earlier packets of the response were sent. The NAK takes the next packet's PSN.
Outcome reject_rest(Qp& qp, Psn psn) {
  qp.responses.drop_jobs(qp.cold->replay);
  return qp.responses.queue_reply(psn, wire::Aeth::nak(wire::NakCode::remote_access)) |
         Outcome::fail(Failure::responder, AsyncEventType::qp_access_error);
}

// Sends queued responses while there is room.
Outcome send_jobs(Context& ctx, Qp& qp) {
  ReplayStore& store = qp.cold->replay;
  ResponseQueue& responses = qp.responses;
  // Responses are paced only where marks report their congestion: the delay of requests says nothing about responses.
  const bool marked = qp.ecn != 0;
  PeerHeaders headers(ctx, qp, ctx.response_headers);
  Outcome out;
  while (ResponseJob* const next = responses.next_job(store)) {
    if (ctx.builder.full()) break;
    ResponseJob& job = *next;
    Resource& resource = store.resources()[job.resource];
    const bool more = store.has_several_jobs();
    if (resource.atomic) {
      send_atomic_ack(ctx, qp, headers, resource, more);
      ++job.next;
    } else if (send_only(ctx, qp, headers, resource, job, more)) {
      // It is sent in full.
    } else if (!(marked && qp.paced) && send_middles(ctx, qp, headers, resource, job)) {
      continue;
    } else if (marked && !may_send_data(ctx, qp)) {
      out |= Outcome::act(Outcome::kPacingTimer);
      break;
    } else if (!send_read_response(ctx, qp, headers, resource, job, more)) {
      return out | reject_rest(qp, resource.first_psn + job.next);
    }
    if (job.next == job.end) responses.finish_job(store, job, resource);
  }
  return out;
}

}  // namespace

void send_reply(Context& ctx, Qp& qp) {
  auto& rx = qp.rx;
  switch (qp.responses.reply_kind()) {
    case wire::AethKind::ack: ctx.counters.acks_sent.add(); break;
    case wire::AethKind::rnr_nak: ctx.counters.rnr_naks_sent.add(); break;
    default: ctx.counters.add_nak_sent(qp.responses.nak_code()); break;
  }
  qp.responses.on_reply_sent();
  if (qp.selective && !ack_says_all(ctx, qp)) return send_sack(ctx, qp);
  TxFrame& frame = ctx.builder.next();
  PeerHeaders headers(ctx, qp, ctx.ack_headers);
  const Psn psn = qp.responses.reply_psn();
  store_aeth(headers.write(frame, opcode_of(qp, Opcode::rc_ack), psn, wire::Aeth::kBytes, {}, false), qp,
             qp.responses.syndrome(), rx.msn);
  ctx.builder.add(frame);
}

Transmitted transmit_responses(Context& ctx, Qp& qp) {
  Outcome out;
  ResponseQueue& responses = qp.responses;
  if (responses.has_jobs()) {
    out = send_jobs(ctx, qp);
    if (out.failed()) return {false, out};
  }
  if (responses.reply_is_next() && !ctx.builder.full()) send_reply(ctx, qp);
  // With room left in the burst, the rest is paced, and the pacing timer brings the QP back.
  return {ctx.builder.full() && (responses.reply_pending() || responses.has_jobs()), out};
}

}  // namespace uroce::transport
