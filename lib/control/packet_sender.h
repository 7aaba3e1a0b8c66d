// The sender of a packet, of whom no header tells.
#pragma once

#include <cstdint>
#include <optional>

#include "transport/engine/engine.h"
#include "wire/packet.h"

namespace uroce::control {

/// Of a packet that the engine has `sent`: the queue pair here. Of another: the peer's of the one here that gets it.
/// nullopt: it is none of the engine's. Engine's thread.
inline std::optional<uint32_t> sender_of(transport::Engine& engine, bool sent, const wire::Packet& packet) {
  const uint32_t receiver = packet.bth.dest_qpn;
  if (!sent) {
    const transport::Qp* const qp = engine.qps().find(receiver);
    return qp != nullptr && qp->route != nullptr ? std::optional(qp->dest_qpn) : std::nullopt;
  }
  std::optional<uint32_t> sender;
  const Gid peer = packet.destination();
  (void)engine.qps().any_of([&](const transport::Qp& qp) {
    if (qp.dest_qpn != receiver || qp.route == nullptr || wire::destination_of(*qp.route) != peer) return false;
    sender = qp.qpn;
    return true;
  });
  return sender;
}

/// Takes a queue pair to the error state. False: there is none of that number. Engine's thread.
inline bool end_qp(transport::Engine& engine, uint32_t qpn) {
  transport::Qp* const qp = engine.qps().find(qpn);
  if (qp != nullptr) engine.modify(*qp, {.state = QpState::error}, QpAttrBit::state, nullptr, false);
  return qp != nullptr;
}

}  // namespace uroce::control
