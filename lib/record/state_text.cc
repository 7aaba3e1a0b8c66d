#include "record/state_text.h"

#include <fmt/format.h>

namespace uroce::record {
namespace {

std::string_view name_of(QpState state) {
  switch (state) {
    case QpState::reset: return "RESET";
    case QpState::init: return "INIT";
    case QpState::rtr: return "RTR";
    case QpState::rts: return "RTS";
    case QpState::sqd: return "SQD";
    case QpState::sqe: return "SQE";
    case QpState::error: return "ERR";
  }
  return "?";
}

}  // namespace

bool concerns(transport::Engine& engine, uint32_t qpn, const wire::Packet& packet, bool in) {
  if (in) return packet.bth.dest_qpn == qpn;
  if (packet.op().flags.has(wire::Op::deth)) return packet.deth.src_qpn == qpn;
  const transport::Qp* qp = engine.qps().find(qpn);
  return qp != nullptr && qp->dest_qpn == packet.bth.dest_qpn;
}

std::string state_text(transport::Engine& engine, uint32_t qpn) {
  const transport::Qp* qp = engine.qps().find(qpn);
  if (qp == nullptr) return fmt::format("QP {:#x} is not there", qpn);
  const auto& tx = qp->tx;
  return fmt::format(
      "QP {:#x} {}, peer {:#x}: requests {} fetched, {} open; PSN unacknowledged {}, next {}, sent {}; expected {}, "
      "msn {}; selective {}, rnr_waiting {}",
      qpn, name_of(qp->state), qp->dest_qpn, tx.sq.next(), tx.sq.next() - tx.oldest, tx.una.value(), tx.next.value(),
      tx.sent.value(), qp->rx.expected.value(), qp->rx.msn, qp->selective ? 1 : 0, tx.rnr_waiting ? 1 : 0);
}

}  // namespace uroce::record
