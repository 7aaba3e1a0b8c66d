#include "transport/rc/plain_send.h"

#include <cstring>

#include "transport/qp/cq_writer.h"
#include "transport/qp/plain_recv.h"
#include "transport/rc/responder.h"
#include "transport/rc/sack.h"

namespace uroce::transport {
namespace {

Outcome complete_plain_send(Context& ctx, const Qp& qp, const wire::Packet& packet, uint64_t wr_id) {
  queues::Cqe cqe{};
  cqe.wr_id = wr_id;
  cqe.qpn = qp.qpn;
  cqe.byte_len = static_cast<uint32_t>(packet.payload.size());
  cqe.opcode = static_cast<uint8_t>(WcOpcode::recv);
  cqe.timestamp_ns = static_cast<uint64_t>(ctx.now.count());
  ctx.counters.recv_completions.add();
  return write_completion(ctx, *qp.recv_cq, cqe, packet.bth.solicited);
}

}  // namespace

Outcome on_plain_send(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  const std::size_t bytes = packet.payload.size();
  if (packet.bth.psn != rx.expected || !rx.message.idle() || bytes > qp.mtu()) return on_request(ctx, qp, packet);
  PlainRecv recv(qp);
  std::byte* const place = recv.place(ctx, bytes);
  if (place == nullptr) [[unlikely]]
    return on_request(ctx, qp, packet);
  ctx.hand.drop();  // Until the payload is there nothing changes.
  std::memmove(place, packet.payload.data(), bytes);
  ctx.hand.take(qp);
  recv.take(ctx);
  rx.count_message();
  rx.expect_next(1);
  if (qp.selective && packet.bth.ack_request) note_arrival(ctx, qp, packet, false);
  const Outcome out = complete_plain_send(ctx, qp, packet, recv.wr_id());
  return packet.bth.ack_request ? out | rx.responses.queue_ack(packet.bth.psn) : out;
}

}  // namespace uroce::transport
