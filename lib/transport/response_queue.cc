// The responder's answers, in the order of their requests: READ responses, atomic ACKs, then the newest ACK or NAK.
#include "transport/engine_core.h"

namespace uroce::transport {

using wire::Opcode;

void store_aeth(std::byte* at, const Qp& qp, uint8_t syndrome, uint32_t msn) {
  const bool ack = wire::Aeth{syndrome, 0}.kind() == wire::AethKind::ack;
  wire::Aeth{ack ? wire::Aeth::ack(credits_now(qp)) : syndrome, msn}.store(at);
}

namespace {

void send_atomic_ack(EngineCore& core, Qp& qp, const Resource& resource) {
  TxFrame& frame = core.builder.next();
  std::byte* const headers = FrameBuilder::extended_headers(frame, *qp.route);
  store_aeth(headers, qp, wire::Aeth::ack(0), resource.msn);
  store_be64(headers + wire::Aeth::kBytes, resource.atomic_result);
  core.builder.finish(frame, qp, Opcode::rc_atomic_ack, resource.first_psn,
                      wire::Aeth::kBytes + wire::kAtomicAckEthBytes);
}

Opcode read_opcode(bool first, bool last) {
  if (first) return last ? Opcode::rc_read_response_only : Opcode::rc_read_response_first;
  return last ? Opcode::rc_read_response_last : Opcode::rc_read_response_middle;
}

// One packet of a READ response. False: the region has gone.
bool send_read_response(EngineCore& core, Qp& qp, const Resource& resource, ResponseJob& job) {
  const uint32_t offset = job.next << qp.mtu_shift;
  const uint32_t length = std::min(resource.length - offset, qp.mtu());
  TxFrame& frame = core.builder.next();
  if (length > 0) {
    const auto place = core.translate(qp, resource.rkey, resource.va + offset, length, Access::remote_read);
    if (place.result != memory::AccessResult::ok) return false;
    // What a peer READs may be written meanwhile; the ICRC must be that of the bytes which leave.
    frame.copy_payload = true;
    core.builder.add_payload(frame, place.host, length);
  }
  const bool last = job.next + 1 == job.end;
  std::size_t extended = 0;
  if (job.at_start || last) {
    store_aeth(FrameBuilder::extended_headers(frame, *qp.route), qp, wire::Aeth::ack(0), resource.msn);
    extended = wire::Aeth::kBytes;
  }
  core.builder.finish(frame, qp, read_opcode(job.at_start, last), resource.first_psn + job.next, extended,
                      {.ecn = qp.ecn});
  if (qp.ecn != 0) charge_data(core, qp, frame);
  job.at_start = false;
  ++job.next;
  return true;
}

void send_reply(EngineCore& core, Qp& qp) {
  auto& rx = qp.rx;
  switch (wire::Aeth{rx.reply_syndrome, 0}.kind()) {
    case wire::AethKind::ack: core.counters.acks_sent.add(); break;
    case wire::AethKind::rnr_nak: core.counters.rnr_naks_sent.add(); break;
    default: core.counters.naks_sent.add(); break;
  }
  rx.reply_pending = false;
  if (qp.tx.selective) return send_sack(core, qp);
  TxFrame& frame = core.builder.next();
  store_aeth(FrameBuilder::extended_headers(frame, *qp.route), qp, rx.reply_syndrome, rx.msn);
  core.builder.finish(frame, qp, Opcode::rc_ack, rx.reply_psn, wire::Aeth::kBytes);
}

// Sends queued jobs while there is room. False: the QP went to error.
bool send_jobs(EngineCore& core, Qp& qp) {
  QpCold& cold = *qp.cold;
  // Only marks tell how answers fare; the delay that requests see says nothing of them.
  const bool marked = qp.ecn != 0;
  while (cold.jobs_head != cold.jobs_tail && !core.builder.full()) {
    ResponseJob& job = cold.jobs[cold.jobs_head & (cold.jobs.size() - 1)];
    if (job.resource == ResponseJob::kVoid) {
      ++cold.jobs_head;
      continue;
    }
    Resource& resource = cold.resources[job.resource];
    if (resource.atomic) {
      send_atomic_ack(core, qp, resource);
      ++job.next;
    } else if (marked && !may_send_data(core, qp)) {
      break;
    } else if (!send_read_response(core, qp, resource, job)) {
      // 9.7.5.2.4: found after earlier parts were sent; the NAK stands where the next part would.
      queue_reply(core, qp, resource.first_psn + job.next, wire::Aeth::nak(wire::NakCode::remote_access));
      cold.jobs_head = cold.jobs_tail;
      qp.rx.has_jobs = false;
      enter_error(core, qp);
      core.events.on_async_event(AsyncEventType::qp_access_error, qp.qpn);
      return false;
    }
    if (job.next != job.end) continue;
    if (job.original) resource.busy = false;
    ++cold.jobs_head;
  }
  qp.rx.has_jobs = cold.jobs_head != cold.jobs_tail;
  return true;
}

}  // namespace

void queue_reply(EngineCore& core, Qp& qp, Psn psn, uint8_t syndrome) {
  auto& rx = qp.rx;
  const bool is_ack = wire::Aeth{syndrome, 0}.kind() == wire::AethKind::ack;
  // What waits acknowledges what is before it, so an older ACK adds nothing.
  if (is_ack && rx.reply_pending && distance(psn, rx.reply_psn) < 0) return;
  rx.reply_psn = psn;
  rx.reply_syndrome = syndrome;
  rx.reply_pending = true;
  core.activate(qp);
}

bool transmit_responses(EngineCore& core, Qp& qp) {
  if (qp.rx.has_jobs) send_jobs(core, qp);
  if (qp.rx.reply_pending && !qp.rx.has_jobs && !core.builder.full()) send_reply(core, qp);
  // With room left, what waits is paced and comes back by itself.
  return core.builder.full() && (qp.rx.reply_pending || qp.rx.has_jobs);
}

}  // namespace uroce::transport
