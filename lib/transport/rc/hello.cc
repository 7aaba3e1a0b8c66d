#include "transport/rc/hello.h"

#include "transport/core/guess.h"
#include "transport/core/tape.h"
#include "transport/qp/peer_frame.h"
#include "transport/qp/seal.h"
#include "transport/qp/send_window.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/path.h"
#include "wire/receive_spread.h"

namespace uroce::transport {
namespace {

/// Linux rxe before 5.12 does not check the opcode's transport and takes a HELLO for a response, which could complete
/// or fail one of its requests. It ignores a response to a request this long ago as a duplicate.
constexpr uint32_t kPsnsAgo = 1 << 22;

Outcome request_hello(Qp& qp) {
  qp.tx.control_frames |= ControlFrame::kHello;
  return Outcome::wake();
}

void drop_reordered(Context& ctx, Qp& qp) {
  qp.tx.recovery->requests_ahead.drop_all(ctx.frames);
  qp.rx.message.set_later_wait(false);
}

/// wire::Hello::port. Different queue pairs have different ones, so switches still spread them over their paths.
uint16_t port_to_us(const Context& ctx, Qp& qp) {
  uint16_t port = 0;
  const uint16_t wish = std::exchange(qp.tx.recovery->port.peer_wish, uint16_t{0});
  if (ctx.spread != nullptr) {
    const auto queue = static_cast<uint16_t>(ctx.config.index);
    port = ctx.spread
               ->source_port(queue, destination_of(*qp.route), source_of(*qp.route), wish != 0 ? wish : qp.udp_source)
               .value_or(0);
  }
  if (ctx.config.tape != nullptr) ctx.config.tape->taken(std::as_writable_bytes(std::span(&port, 1)));
  return port;
}

}  // namespace

Outcome trust_peer(Context& ctx, Qp& qp, const Proof& proof) {
  Recovery& r = *qp.tx.recovery;
  if (proof.replaces_another) drop_reordered(ctx, qp);
  if (proof.round_trip && !r.loss.rtt().known()) r.loss.sample_rtt(*proof.round_trip);
  r.loss.on_new_peer(qp.tx.acked);
  r.probe.on_progress(ctx.now);
  begin_selective(qp);
  r.sack_due = true;
  update_window(ctx, qp);
  Outcome out = Outcome::act(Outcome::kHelloTimer);
  if (!qp.tx.rnr_waiting && qp.state != QpState::rtr) out |= arm_ack_timer(ctx, qp);
  return out;
}

Outcome distrust_peer(Context& ctx, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  drop_reordered(ctx, qp);
  r.discovery.begin_again();
  qp.end_selective();
  qp.tx.lost.forget(r.loss);
  update_window(ctx, qp);
  return request_hello(qp);
}

Outcome renew_epoch(Context& ctx, Qp& qp) {
  qp.tx.recovery->discovery.renew();
  return distrust_peer(ctx, qp);
}

Outcome send_hello(Context& ctx, Qp& qp) {
  Recovery& r = *qp.tx.recovery;
  qp.tx.control_frames &= static_cast<uint8_t>(~ControlFrame::kHello);
  TxFrame& frame = ctx.builder.next();
  std::byte* const payload = ctx.builder.scratch();
  wire::Hello hello = r.discovery.hello(static_cast<uint16_t>(r.requests_ahead.capacity()), port_to_us(ctx, qp));
  hello.wish = r.port.wish;
  hello.answer |= hello.wish != 0;
  hello.store(payload);
  frame.copy_payload = true;
  ctx.builder.add_payload(frame, payload, wire::Hello::kBytes);
  finish_to_peer(ctx.builder, frame, qp, wire::Opcode::hello, qp.rx.expected - kPsnsAgo, 0);
  ctx.counters.hellos_sent.add();
  r.discovery.on_sent(ctx.now, qp.tx.una != qp.tx.sent);
  return Outcome::act(Outcome::kHelloTimer);
}

Outcome on_hello_timer(Qp& qp) {
  const bool due = qp.tx.recovery->discovery.on_timer();
  return due && qp.state != QpState::error ? request_hello(qp) : Outcome{};
}

Outcome on_hello(Context& ctx, Qp& qp, const wire::Packet& packet) {
  ctx.counters.hellos_received.add();
  const auto heard = qp.tx.recovery->discovery.on_hello(wire::Hello::load(packet.payload), ctx.now);
  if (!heard.valid) {
    ctx.count_drop(wire::Drop::hello_invalid);
    count_guess(ctx, packet, Guess::epoch);
    return {};
  }
  if (heard.port != 0) take_port(ctx, qp, heard.port);
  Outcome out;
  if (heard.proof) out |= trust_peer(ctx, qp, *heard.proof);
  if (heard.answer) {
    qp.tx.recovery->port.peer_wish = heard.wish;
    qp.tx.recovery->sack_due = true;
    out |= request_hello(qp);
  }
  return out;
}

}  // namespace uroce::transport
