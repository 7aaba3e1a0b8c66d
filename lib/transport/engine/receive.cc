#include "transport/engine/receive.h"

#include "base/wr_opcodes.h"
#include "transport/datagram/uc.h"
#include "transport/datagram/ud.h"
#include "transport/rc/acknowledge.h"
#include "transport/rc/congestion.h"
#include "transport/rc/hello.h"
#include "transport/rc/plain_middles.h"
#include "transport/rc/plain_reads.h"
#include "transport/rc/plain_send.h"
#include "transport/rc/responder.h"
#include "transport/rc/response_receiver.h"

namespace uroce::transport {
namespace {

// ACKs, SACKs, responses to READs and atomics, and CNPs, which are responses to data packets.
Outcome handle_response(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (qp.state != QpState::rts && qp.state != QpState::sqd) {
    ctx.count_drop(wire::Drop::qp_state);
    return {};
  }
  switch (packet.bth.opcode) {
    case wire::Opcode::rc_ack:
    case wire::Opcode::xrc_ack: return on_ack(ctx, qp, packet);
    case wire::Opcode::sack: return on_sack(ctx, qp, packet);
    case wire::Opcode::cnp: return on_cnp(ctx, qp, packet);
    case wire::Opcode::rc_atomic_ack:
    case wire::Opcode::xrc_atomic_ack: return on_atomic_ack(ctx, qp, packet);
    default: return on_read_response(ctx, qp, packet);
  }
}

}  // namespace

template <Steps kSteps>
Outcome handle_packet(Context& ctx, Qp& qp, const wire::Packet& packet) {
  if (qp.type != QpType::rc) [[unlikely]]
    if (!is_xrc(qp.type))
      return qp.type == QpType::uc ? on_uc_request(ctx, qp, packet) : on_datagram<kSteps>(ctx, qp, packet);
  Outcome marked;
  const wire::OpFlags op = packet.op().flags;
  if (packet.ecn == CnpLimiter::kCongestionExperienced && op.has(wire::Op::payload)) [[unlikely]]
    marked = on_mark(ctx, qp);
  if (op.has(wire::Op::request)) return marked | on_request(ctx, qp, packet);
  if (packet.bth.opcode == wire::Opcode::hello) return marked | on_hello(ctx, qp, packet);
  return marked | handle_response(ctx, qp, packet);
}

template <Steps kSteps>
Outcome handle_other_plain_packet(Context& ctx, Qp& qp, const wire::Packet& packet) {
  const auto in_hand = [&]() -> Qp& {
    ctx.hand.take<kSteps>(qp);
    return qp;
  };
  if (packet.bth.opcode == wire::Opcode::rc_send_only) return on_plain_send<kSteps>(ctx, qp, packet);
  switch (packet.bth.opcode) {
    case wire::Opcode::rc_ack: return on_ack(ctx, in_hand(), packet);
    case wire::Opcode::rc_write_middle:
    case wire::Opcode::rc_send_middle: return on_plain_middle<kSteps>(ctx, qp, packet);
    case wire::Opcode::rc_write_first: return on_plain_write_first<kSteps>(ctx, qp, packet);
    case wire::Opcode::rc_write_last: return on_plain_write_last<kSteps>(ctx, qp, packet);
    case wire::Opcode::rc_read_response_middle: return on_plain_middle_response<kSteps>(ctx, qp, packet);
    case wire::Opcode::rc_read_request:
    case wire::Opcode::rc_compare_swap:
    case wire::Opcode::rc_fetch_add: return on_plain_read(ctx, in_hand(), packet);
    case wire::Opcode::rc_read_response_only:
    case wire::Opcode::rc_atomic_ack: return on_plain_response<kSteps>(ctx, qp, packet);
    default: return handle_packet<kSteps>(ctx, in_hand(), packet);  // first and last packets of others
  }
}

template Outcome handle_packet<Steps::unmarked>(Context&, Qp&, const wire::Packet&);
template Outcome handle_packet<Steps::marked>(Context&, Qp&, const wire::Packet&);
template Outcome handle_other_plain_packet<Steps::unmarked>(Context&, Qp&, const wire::Packet&);
template Outcome handle_other_plain_packet<Steps::marked>(Context&, Qp&, const wire::Packet&);

}  // namespace uroce::transport
