// SACK frames (wire/recovery.h): an acknowledgement, a bitmap of the packets that have arrived beyond it, and an echo
// to measure the round trip.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"
#include "wire/recovery.h"

namespace uroce::transport {

/// Does a uroce peer say that it sent `packet` before?
inline bool is_retransmitted(const Qp& qp, const wire::Packet& packet) {
  return qp.selective && wire::copy_of(packet.bth) != 0;
}
/// Makes `packet` the request that the next SACK echoes. `duplicate`: it had arrived before, and is of no use.
inline void note_arrival(const Context& ctx, Qp& qp, const wire::Packet& packet, bool duplicate) {
  qp.tx.recovery->echo = {packet.bth.psn, wire::copy_of(packet.bth), duplicate, ctx.now};
}
/// The SACK of a uroce peer that an ACK for `psn` stands for.
inline wire::Sack sack_of(Psn psn) {
  wire::Sack sack;
  sack.base = psn + 1;
  sack.echo = psn;
  return sack;
}
/// Would the pending reply say the same as an ACK? Then nothing is out of order, and it echoes the first copy of the
/// packet that it acknowledges. An ACK cannot say how long it was held back, so it must not be for long.
inline bool ack_says_all(const Context& ctx, const Qp& qp) {
  constexpr Nanos kNoticed{TimerWheel::kTickNanos};
  const auto& rx = qp.rx;
  const Recovery& r = *qp.tx.recovery;
  const Psn psn = qp.responses.reply_psn();
  if (qp.responses.reply_kind() != wire::AethKind::ack || rx.message.later_wait() || r.sack_due) return false;
  return r.echo.psn == psn && rx.expected == psn + 1 && r.echo.tag == 0 && !r.echo.duplicate &&
         ctx.now - r.echo.at < kNoticed;
}
/// Sends the pending reply as a SACK.
void send_sack(Context& ctx, Qp& qp);
/// Is a SACK to be believed?
enum class Credit : uint8_t {
  full,
  none,     ///< it is malformed, or for another connection, or acknowledges packets never sent
  foreign,  ///< the peer keeps packets that were never sent: a stranger has guessed a seal
};
Credit load_sack(const Qp& qp, const wire::Packet& packet, wire::Sack& sack);

}  // namespace uroce::transport
