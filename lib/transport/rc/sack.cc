#include "transport/rc/sack.h"

#include <algorithm>
#include <bit>

#include "transport/qp/peer_frame.h"

namespace uroce::transport {
namespace {

void fill_bitmap(const ReorderBuffer& ahead, Psn expected, wire::Sack& sack) {
  const Psn first = expected + 1;
  const int32_t span = distance(ahead.end(), first);
  sack.words = static_cast<uint32_t>(std::clamp((span + 63) / 64, 0, static_cast<int32_t>(wire::Sack::kMaxWords)));
  for (uint32_t i = 0; i < sack.words; ++i) sack.bitmap[i] = ahead.bits_from(first + i * 64);
  // The set is circular: the last bit would be that of its first PSN.
  if (sack.words == wire::Sack::kMaxWords) sack.bitmap[sack.words - 1] &= ~uint64_t{0} >> 1;
}

}  // namespace

void send_sack(Context& ctx, Qp& qp) {
  const auto& rx = qp.rx;
  Recovery& r = *qp.tx.recovery;
  r.sack_due = rx.message.later_wait();
  wire::Sack sack;
  sack.epoch = r.discovery.peer_epoch();
  sack.base = rx.expected;
  sack.echo = r.echo.psn;
  sack.echo_tag = r.echo.tag;
  sack.duplicate = r.echo.duplicate;
  sack.hold = static_cast<uint32_t>(std::min<int64_t>((ctx.now - r.echo.at).count(), UINT32_MAX));
  if (!r.requests_ahead.empty()) fill_bitmap(r.requests_ahead, rx.expected, sack);
  TxFrame& frame = ctx.builder.next();
  store_aeth(FrameBuilder::extended_headers(frame, *qp.route), qp, qp.responses.syndrome(), rx.msn);
  std::byte* const payload = ctx.builder.scratch();
  sack.store(payload);
  frame.copy_payload = true;
  ctx.builder.add_payload(frame, payload, static_cast<uint32_t>(sack.bytes()));
  finish_to_peer(ctx.builder, frame, qp, wire::Opcode::sack, qp.responses.reply_psn(), wire::Aeth::kBytes);
  ctx.counters.sacks_sent.add();
}

Credit load_sack(const Qp& qp, const wire::Packet& packet, wire::Sack& sack) {
  const auto& tx = qp.tx;
  const uint32_t epoch = tx.recovery->discovery.epoch();
  if (epoch == 0 || !wire::Sack::load(packet.payload, sack) || sack.epoch != epoch) return Credit::none;
  if (distance(sack.base, tx.sent) > 0) return Credit::none;
  if (packet.aeth.kind() != wire::AethKind::ack && packet.bth.psn != sack.base) return Credit::none;
  for (uint32_t i = sack.words; i > 0; --i) {
    if (sack.bitmap[i - 1] == 0) continue;
    const uint32_t top = i * 64 - static_cast<uint32_t>(std::countl_zero(sack.bitmap[i - 1]));
    return distance(sack.base + top, tx.sent) < 0 ? Credit::full : Credit::foreign;
  }
  return Credit::full;
}

}  // namespace uroce::transport
