#include "transport/rc/retransmit.h"

#include <algorithm>

#include "transport/qp/work_queue.h"
#include "transport/rc/pacing.h"
#include "transport/rc/request_packets.h"

namespace uroce::transport {
namespace {

// Requests a READ's responses from `at` on, up to the next one that has arrived or that cannot have left the peer yet.
void ask_again(Context& ctx, Qp& qp, SendSlot& slot, Psn at) {
  const ResponseTracker& responses = qp.tx.recovery->responses;
  const Psn expected = responses.expected_end();
  const bool part = distance(expected, at) > 0 && distance(expected, slot.end_psn()) < 0;
  const Psn until = part ? expected : slot.end_psn();
  const uint32_t wanted = std::min(static_cast<uint32_t>(distance(until, at)), kMaxReadPackets);
  const uint32_t known = std::min(wanted, PsnSet::kSize);
  const uint32_t missing = responses.missing_from(at, known);
  const auto first = static_cast<uint32_t>(distance(at, slot.first_psn));
  emit_read_request(ctx, qp, slot, first, missing < known ? missing : wanted);
}

}  // namespace

Transmitted transmit_lost(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  LossDetector& loss = tx.recovery->loss;
  uint32_t index = tx.oldest;
  Psn at = tx.una;
  const Psn end = tx.una + std::min(static_cast<uint32_t>(distance(tx.sent, tx.una)), PsnSet::kSize);
  Outcome out;
  for (;;) {
    at += loss.next_lost(at, static_cast<uint32_t>(distance(end, at)));
    if (at == end) break;
    if (ctx.builder.full()) return {true, out};
    if (!may_send_data(ctx, qp)) return {false, out | Outcome::act(Outcome::kPacingTimer)};
    loss.take_lost(at);
    SendSlot* slot = find_request(qp, at, index);
    if (slot == nullptr || slot->status != WcStatus::success) continue;
    if (slot->is_atomic()) {
      emit_atomic(ctx, qp, *slot);
    } else if (slot->is_placement()) {
      emit_placement(ctx, qp, *slot);
    } else if (slot->is_read()) {
      ask_again(ctx, qp, *slot, at);
    } else {
      const auto packet = static_cast<uint32_t>(distance(at, slot->first_psn));
      if (emit_data(ctx, qp, *slot, segment_at(qp, *slot, packet), at, true)) continue;
      rewind_to(qp, at);  // The requester fails it there, in its turn.
      out |= Outcome::wake();
    }
  }
  tx.has_lost = false;
  return {false, out};
}

}  // namespace uroce::transport
