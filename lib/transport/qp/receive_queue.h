// Receive work requests, from the QP's own queue or a shared one. A message takes one, fills it and completes it.
#pragma once

#include <span>

#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

enum class TakeRecv { taken, empty, invalid };
TakeRecv take_recv(Context& ctx, Qp& qp);
/// Places `payload` at byte `offset` of the receive in use.
WcStatus place_received(const Context& ctx, const Qp& qp, uint64_t offset, std::span<const std::byte> payload);
/// The domain of the receive in use. 10.2.9: the memory of a shared queue's receives is of the queue's domain,
/// whichever the queue pair has.
memory::PdId pd_of_recv(const Qp& qp);
/// Call it after each packet. Gives the slot of a shared queue's receive back that is still in use, and tells the
/// application's side who has it (queues::HeldRecv).
inline void publish_recv_in_use(Qp& qp);
/// The receive in use goes without a completion.
void forget_recv_in_use(Qp& qp);
/// The completion of a message with `bytes` that `packet` ends, with its immediate data or the key that it invalidates.
/// The receive in use gives the rest.
inline queues::Cqe completion_of(const wire::Packet& packet, WcOpcode opcode, std::size_t bytes, WcFlags flags = {}) {
  queues::Cqe cqe{};
  cqe.byte_len = static_cast<uint32_t>(bytes);
  cqe.opcode = static_cast<uint8_t>(opcode);
  cqe.imm_or_key = packet.imm;
  cqe.flags = flags.bits();
  if (packet.op().flags.has(wire::Op::imm)) cqe.flags |= WcFlags(WcFlag::with_imm).bits();
  return cqe;
}
/// Completes the receive in use.
Outcome complete_recv(Context& ctx, Qp& qp, const queues::Cqe& cqe, bool solicited);
/// The completion alone, of a receive whose slot has been given back. Fills in what `cqe` lacks.
Outcome report_recv(Context& ctx, const Qp& qp, queues::Cqe& cqe, bool solicited);
/// Completes the receive in use with an error.
Outcome complete_recv_with_error(Context& ctx, Qp& qp, WcStatus status);
/// UC and UD: as complete_recv_with_error(), and the QP fails.
Outcome fail_recv(Context& ctx, Qp& qp, WcStatus status);
/// Flushes the receive in use, if any.
Outcome flush_recv_in_use(Context& ctx, Qp& qp);
/// Flushes the receive in use and those that are posted, at most `most`. Returns how many. An overrun of the completion
/// queue is not told: the QP is in error.
uint32_t flush_receives(Context& ctx, Qp& qp, uint32_t most);
/// Reports the first packet that arrives at RTR, once (communication established, 11.6.3.1).
void report_established(Context& ctx, Qp& qp);
/// Receives that may be granted to the peer as credits, as an AETH credit code. It may lag behind what the application
/// posts, as GrantedCredits says: the ring's line is in no cache.
inline uint8_t credits_now(Qp& qp) {
  auto& rx = qp.rx;
  // 9.7.7.2.1: no credits are offered from a shared receive queue. A QP that uses one has no ring of its own.
  if (rx.rq.entries() == 0) return wire::Aeth::kNoCreditLimit;
  const uint32_t in_use = rx.message.recv_in_use() ? 1 : 0;
  const auto completed = static_cast<uint16_t>(rx.rq.next() - in_use);
  if (!rx.granted.holds(completed, rx.msn)) rx.granted.set(completed, rx.msn, credit_code(rx.rq.available() + in_use));
  return rx.granted.code();
}

void publish_taken_recv(Qp& qp);  // the rare part of publish_recv_in_use()
inline void publish_recv_in_use(Qp& qp) {
  if (qp.rx.message.recv_unpublished()) [[unlikely]]
    publish_taken_recv(qp);
}

}  // namespace uroce::transport
