#include "transport/rc/plain_send.h"

#include <cstring>

#include "transport/qp/plain_recv.h"
#include "transport/qp/receive_queue.h"
#include "transport/rc/responder.h"
#include "transport/rc/sack.h"

namespace uroce::transport {
namespace {

Outcome on_other_send(Context& ctx, Qp& qp, const wire::Packet& packet) {
  ctx.hand.take(qp);
  return on_request(ctx, qp, packet);
}

}  // namespace

template <Steps kSteps>
Outcome on_plain_send(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  const std::size_t bytes = packet.payload.size();
  if (packet.bth.psn != rx.expected || !rx.message.idle() || bytes > qp.mtu()) return on_other_send(ctx, qp, packet);
  PlainRecv recv(qp);
  std::byte* const place = recv.place(ctx, bytes);
  if (place == nullptr) [[unlikely]]
    return on_other_send(ctx, qp, packet);
  std::memmove(place, packet.payload.data(), bytes);
  ctx.hand.take<kSteps>(qp);  // Until the payload is there nothing changes.
  recv.take(ctx, qp);
  rx.count_message();
  qp.expect_next(1);
  if (qp.selective && packet.bth.ack_request) note_arrival(ctx, qp, packet, false);
  queues::Cqe cqe{};
  cqe.byte_len = static_cast<uint32_t>(bytes);
  cqe.opcode = static_cast<uint8_t>(WcOpcode::recv);
  const Outcome out = report_recv(ctx, qp, cqe, packet.bth.solicited);
  return packet.bth.ack_request ? out | qp.responses.queue_ack(packet.bth.psn) : out;
}

template Outcome on_plain_send<Steps::unmarked>(Context&, Qp&, const wire::Packet&);
template Outcome on_plain_send<Steps::marked>(Context&, Qp&, const wire::Packet&);

}  // namespace uroce::transport
