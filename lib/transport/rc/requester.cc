#include "transport/rc/requester.h"

#include <algorithm>

#include "transport/qp/local_operation.h"
#include "transport/qp/work_queue.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/congestion.h"
#include "transport/rc/lost_packets.h"
#include "transport/rc/plain_middles.h"
#include "transport/rc/plain_reads.h"
#include "transport/rc/plain_requests.h"
#include "transport/rc/request_packets.h"

namespace uroce::transport {
namespace {

// The PSN of the cursor's packet.
Psn cursor_psn(const Qp& qp, const SendSlot& slot) { return slot.first_psn + qp.tx.cursor.packet(); }

void step_cursor(Qp& qp, const SendSlot& slot, uint32_t packets) { qp.tx.cursor.step(packets, slot.packets); }

// May the message of `slot`, not yet started, begin now?
bool may_start(const Context& ctx, const Qp& qp, const SendSlot& slot) {
  const auto& tx = qp.tx;
  if (qp.state != QpState::rts) return false;
  if (slot.status != WcStatus::success) return false;
  if (slot.has(SendFlag::fence) && tx.rd_atomic > 0) return false;
  if (!slot.is_plain_write()) {
    if (slot.is_local()) return may_run_local(qp, slot);
    if (slot.has_response()) return responses_fit(ctx, qp, slot.packets);
    // 9.7.7.2.5: without credits one packet leaves alone, and the next waits for the ACK with new credits.
    if (slot.takes_recv() && tx.credits.next_exceeds() && tx.una != tx.sent) return false;
  }
  return distance(tx.next, tx.una) < static_cast<int32_t>(tx.window);
}

// Packets of one length and opcode cost both sides less, and a kernel takes them as one super-frame. Each is a message
// that RC allows, so every peer understands it; others than uroce do more work for it. Immediate data tell the length
// of their own message, so theirs stays whole.
bool goes_as_onlies(const Context& ctx, const Qp& qp, const SendSlot& slot) {
  if (slot.packets < 2 || !slot.is_plain_write()) return false;
  return qp.selective && qp.type == QpType::rc && !ctx.whole_writes;
}

void start(Context& ctx, Qp& qp, SendSlot& slot) {
  auto& tx = qp.tx;
  slot.started = true;
  slot.first_psn = tx.next;
  if (slot.is_local()) {
    slot.status = run_local(ctx, qp, slot);
    return;
  }
  slot.as_onlies = goes_as_onlies(ctx, qp, slot);
  slot.ssn = tx.credits.next_message(slot.as_onlies ? slot.packets : 1);
  tx.next += slot.packets;
  if (slot.has_response()) ++tx.rd_atomic;
}

// Is another packet certain to follow the cursor's last packet, so that this one need not ask for an ACK?
bool more_follows(const Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  const uint32_t following = tx.cursor.index() + 1;
  if (following == tx.sq.next() && !fetch_wqe(ctx, qp)) return false;
  const SendSlot& after = qp.slot(following);
  if (after.is_local()) return false;  // Requests behind it may have to wait for this one's ACK.
  return after.started || (may_start(ctx, qp, after) && !(after.takes_recv() && tx.credits.next_exceeds()));
}

Attempt send_data_packet(Context& ctx, Qp& qp, SendSlot& slot) {
  auto& tx = qp.tx;
  const Psn psn = cursor_psn(qp, slot);
  if (distance(psn, tx.una) >= static_cast<int32_t>(tx.window)) return {.sent = false, .out = {}};
  const bool limited = slot.takes_recv() && tx.credits.exceeds(slot.ssn);
  if (limited && tx.cursor.packet() > 0 && distance(tx.una, slot.first_psn) <= 0) return {.sent = false, .out = {}};
  if (!may_send_data(ctx, qp)) return {.sent = false, .out = Outcome::act(Outcome::kPacingTimer)};

  const Segment segment = segment_at_cursor(qp, slot);
  const bool again = distance(psn, tx.sent) < 0;
  bool ack_request = limited || ack_request_is_due(ctx, qp, ack_request_interval(qp));
  if (segment.last && !ack_request) {
    ack_request = again || slot.has(SendFlag::signaled) || qp.signal_all || !more_follows(ctx, qp);
  }
  if (!emit_data(ctx, qp, slot, segment, psn, ack_request)) return {.sent = false, .out = {}};
  step_cursor(qp, slot, 1);
  if (!again) tx.sent = psn + 1;
  return {};
}

// Sends a READ request for the responses that are missing from the cursor on.
Attempt send_read_request(Context& ctx, Qp& qp, SendSlot& slot) {
  auto& tx = qp.tx;
  const Psn psn = cursor_psn(qp, slot);
  const uint32_t first = tx.cursor.packet();
  // A long READ goes on with another request only when all responses to the one before have arrived.
  if (first > 0 && psn == tx.sent && tx.una != psn) return {.sent = false, .out = {}};
  uint32_t packets = std::min(slot.packets - first, kMaxReadPackets);
  uint32_t step = packets;
  if (distance(psn, tx.sent) < 0) {
    // Responses that have arrived are not requested again. Only the first missing run is requested now: a duplicate
    // READ may ask for less than the original (9.7.5.1.2), and Linux rxe then forgets the responses before it.
    step = packets = std::min(packets, static_cast<uint32_t>(distance(tx.sent, psn)));
    packets = tx.recovery->responses.missing_from(psn, packets, tx.una);
  }
  if (packets > 0) emit_read_request(ctx, qp, slot, first, packets);
  const Psn end = psn + packets;
  step_cursor(qp, slot, step);
  if (distance(end, tx.sent) > 0) tx.sent = end;
  return {};
}

// An atomic, FLUSH or ATOMIC WRITE: one packet, and one PSN for its response.
Attempt send_single(Context& ctx, Qp& qp, const SendSlot& slot) {
  auto& tx = qp.tx;
  slot.is_atomic() ? emit_atomic(ctx, qp, slot) : emit_placement(ctx, qp, slot);
  if (distance(slot.first_psn, tx.sent) >= 0) tx.sent = slot.first_psn + 1;
  step_cursor(qp, slot, 1);
  return {};
}

// A local operation ran when it was started. The cursor only passes it, again after each rewind.
Attempt pass_local(Context& ctx, Qp& qp, const SendSlot& slot) {
  step_cursor(qp, slot, 0);
  const LocalCompletions done = complete_local(ctx, qp);
  if (done.any && !done.out.failed()) {
    publish_completed(qp);
    check_drained(ctx, qp);
  }
  return {.sent = !done.out.failed(), .out = done.out};
}

Attempt send_packet(Context& ctx, Qp& qp, SendSlot& slot) {
  if (slot.is_local()) return pass_local(ctx, qp, slot);
  if (slot.is_read()) return send_read_request(ctx, qp, slot);
  if (slot.is_atomic() || slot.is_placement()) return send_single(ctx, qp, slot);
  return send_data_packet(ctx, qp, slot);
}

// Sends the plain requests that are next in the queue. True: the next one waits for a response.
bool transmit_plain(Context& ctx, Qp& qp, Outcome& out) {
  auto next = plain_next(qp);
  if (next == PlainNext::read) {
    const PlainReads reads = transmit_plain_reads(ctx, qp);
    out |= reads.out;
    if (reads.waits) return true;
    next = plain_next(qp);
  }
  if (next == PlainNext::data) out |= transmit_plain_requests(ctx, qp);
  return false;
}

}  // namespace

Outcome transmit_requests(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  if (qp.state != QpState::rts) [[unlikely]] {
    if (qp.state == QpState::error) return Outcome::act(Outcome::kFlush);
    if (qp.state != QpState::sqd) return {};
  }
  if (tx.rnr_waiting) return {};
  Outcome out;
  if (tx.lost.any()) {
    const Transmitted lost = transmit_lost(ctx, qp);
    out |= lost.out | begin_waiting(ctx, qp);
    if (lost.more) return out | Outcome::wake();
  }
  for (bool plain = ctx.config.plain_path;;) {
    if (plain && transmit_plain(ctx, qp, out)) return out;
    if (ctx.builder.full()) return out | Outcome::wake();
    const bool fetched =
        tx.cursor.index() != tx.sq.next() || (qp.state == QpState::rts && has_posted(qp) && fetch_wqe(ctx, qp));
    if (!fetched) return out;
    SendSlot& slot = qp.slot(tx.cursor.index());
    if (!slot.started) {
      if (may_start(ctx, qp, slot)) start(ctx, qp, slot);
    }
    Attempt attempt{.sent = false, .out = {}};
    if (slot.started && slot.status == WcStatus::success) {
      const bool alike = ctx.config.plain_path && (tx.cursor.packet() != 0 || slot.as_onlies);
      if (alike && transmit_alike(ctx, qp, slot) > 0) {
        out |= begin_waiting(ctx, qp);
        continue;
      }
      attempt = send_packet(ctx, qp, slot);
    }
    out |= attempt.out;
    if (!attempt.sent) {
      // A request that is wrong fails in its turn, when all before it are complete.
      const bool wrong = slot.status != WcStatus::success && tx.cursor.index() == tx.oldest;
      return wrong ? out | Outcome::fail(Failure::requester, slot.status) : out;
    }
    out |= begin_waiting(ctx, qp);
    // Others like it may follow.
    plain = ctx.config.plain_path && slot.packets == 1 && plain_kind(slot.opcode) != PlainNext::none;
  }
}

}  // namespace uroce::transport
