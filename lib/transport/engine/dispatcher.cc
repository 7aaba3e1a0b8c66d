#include "transport/engine/dispatcher.h"

#include "transport/qp/error.h"

namespace uroce::transport {
namespace {

QpEnd::Cause cause_of(const Outcome& found) {
  switch (found.failure()) {
    case Failure::requester:
    case Failure::send_queue: return QpEnd::Cause::request;
    case Failure::responder: return QpEnd::Cause::response;
    case Failure::cq_overrun: return QpEnd::Cause::overrun;
    default: return found.has(Outcome::kReport) ? QpEnd::Cause::queues : QpEnd::Cause::receive;
  }
}

std::optional<FailedRequest> oldest_request(const Qp& qp) {
  const auto& tx = qp.tx;
  if (tx.oldest == tx.sq.next()) return std::nullopt;
  const SendSlot& slot = qp.slot(tx.oldest);
  return FailedRequest{.opcode = slot.opcode,
                       .length = slot.length,
                       .remote_addr = slot.remote_addr,
                       .requests_done = tx.oldest,
                       .packets_done = (tx.una - qp.cold->attr.sq_psn).value(),
                       .mtu = qp.mtu(),
                       .timeout = qp.timeout,
                       .retry_cnt = qp.retry_cnt,
                       .rnr_retry = qp.rnr_retry,
                       .round_trip = tx.recovery != nullptr && tx.recovery->loss.rtt().known()
                                         ? tx.recovery->loss.rtt().smoothed()
                                         : Nanos(0)};
}

void tell_of_end(Context& ctx, const Qp& qp, const Outcome& found, const std::optional<FailedRequest>& request) {
  QpEnd end{.qpn = qp.qpn, .cause = cause_of(found), .status = found.status(), .event = found.event()};
  if (end.cause == QpEnd::Cause::request) end.request = request;
  if (end.cause == QpEnd::Cause::receive && end.status == WcStatus::success) return;  // its program has moved it
  if (qp.route != nullptr) {
    end.peer = wire::destination_of(*qp.route);
    end.peer_qpn = qp.cold->attr.dest_qpn;
  }
  ctx.events.on_end(end);
}

}  // namespace

void Dispatcher::fail(Qp& qp, Outcome found) {
  const bool ended_before = qp.state == QpState::error || qp.state == QpState::sqe;
  const std::optional<FailedRequest> request = oldest_request(qp);
  Outcome rest = stop_qp(ctx_, qp, found);
  // The flush may find a completion queue full, which is a second failure. There is no third: the QP is in error then.
  if (rest.failed()) rest |= stop_qp(ctx_, qp, rest);
  if (found.has(Outcome::kReport)) ctx_.events.on_async_event(found.event(), qp.qpn);
  if (!ended_before) tell_of_end(ctx_, qp, found, request);
  // kStopTimers of `rest` also stops the timers that `found` sets.
  found |= rest;
  act(qp, found);
}

}  // namespace uroce::transport
