// The responder's shortcut for plain SENDs (wire/plain_packet.h) that fill a receive of one entry, of the queue pair's
// own queue or of a shared one: the general way (rc/responder.h) without the branches that other requests need.
#pragma once

#include <cstring>

#include "transport/core/context.h"
#include "transport/qp/cq_writer.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"
#include "transport/qp/srq.h"
#include "transport/rc/responder.h"
#include "transport/rc/sack.h"

namespace uroce::transport {

/// The next receive, read from shared memory once.
struct PlainRecv {
  queues::RingConsumer& ring;
  memory::PdId pd;
  uint32_t max_sge;
  queues::RecvWqe wqe{};
  Sge sge{};

  explicit PlainRecv(Qp& qp)
      : ring(qp.cold->srq != nullptr ? qp.cold->srq->ring : qp.rx.rq),
        pd(qp.cold->srq != nullptr ? qp.cold->srq->pd : qp.pd),
        max_sge(static_cast<uint32_t>(qp.cold->recv_sges.size())) {}

  /// Is there one, of one entry? It is not taken yet.
  bool read() {
    if (ring.entries() == 0 || ring.available() == 0 || max_sge == 0) return false;
    const std::byte* const from = ring.slot();
    std::memcpy(&wqe, from, sizeof wqe);
    std::memcpy(&sge, from + sizeof wqe, sizeof sge);
    return wqe.num_sge == 1;
  }
  /// Takes it, and gives its slot back: the ring has room before the completion can be polled.
  void take(Context& ctx, const Qp& qp) {
    ring.advance(1);
    ring.mirror(ring.next());
    if (qp.cold->srq != nullptr) qp.cold->srq->check_limit(ctx.events);
  }
};

inline Outcome complete_plain_send(Context& ctx, const Qp& qp, const wire::Packet& packet, uint64_t wr_id) {
  queues::Cqe cqe{};
  cqe.wr_id = wr_id;
  cqe.qpn = qp.qpn;
  cqe.byte_len = static_cast<uint32_t>(packet.payload.size());
  cqe.opcode = static_cast<uint8_t>(WcOpcode::recv);
  cqe.timestamp_ns = static_cast<uint64_t>(ctx.now.count());
  ctx.counters.recv_completions.add();
  return write_completion(ctx, *qp.recv_cq, cqe, packet.bth.solicited);
}

/// As on_request(), for a plain SEND. The QP is in RTS.
inline Outcome on_plain_send(Context& ctx, Qp& qp, const wire::Packet& packet) {
  auto& rx = qp.rx;
  const std::size_t bytes = packet.payload.size();
  PlainRecv recv(qp);
  const bool plain = packet.bth.psn == rx.expected && rx.message.idle() && bytes <= qp.mtu() && recv.read();
  if (!plain || bytes - 1 >= recv.sge.length) [[unlikely]]  // a message without bytes has no key to check
    return on_request(ctx, qp, packet);
  const auto place = ctx.regions.translate(recv.sge.lkey, recv.pd, recv.sge.addr, bytes, Access::local_write);
  if (place.result != memory::AccessResult::ok || place.host == nullptr) [[unlikely]]
    return on_request(ctx, qp, packet);
  ctx.hand.drop();  // Until the payload is there nothing changes.
  std::memmove(place.host, packet.payload.data(), bytes);
  ctx.hand.take(qp);
  recv.take(ctx, qp);
  rx.count_message();
  rx.expect_next(1);
  if (qp.selective && packet.bth.ack_request) note_arrival(ctx, qp, packet, false);
  const Outcome out = complete_plain_send(ctx, qp, packet, recv.wqe.wr_id);
  return packet.bth.ack_request ? out | rx.responses.queue_ack(packet.bth.psn) : out;
}

}  // namespace uroce::transport
