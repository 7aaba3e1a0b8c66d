#include "transport/rc/nak.h"

#include "transport/qp/work_queue.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/hello.h"
#include "transport/rc/lost_packets.h"
#include "transport/rc/retry.h"
#include "transport/rc/rnr_timer.h"

namespace uroce::transport {
namespace {

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

}  // namespace

Outcome on_nak(Context& ctx, Qp& qp, const wire::Packet& packet, bool responses_missing) {
  const auto code = static_cast<wire::NakCode>(packet.aeth.code());
  const bool sequence_error = code == wire::NakCode::psn_sequence;
  // 9.7.5.1.1: the responses before an error come first.
  if (responses_missing && !sequence_error) return {};
  ctx.counters.naks_received.add();
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

}  // namespace uroce::transport
