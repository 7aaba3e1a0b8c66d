#include "service/cm_qp_operations.h"

#include <array>
#include <cerrno>
#include <optional>

#include "service/qp_operations.h"

namespace uroce::service {
namespace {

/// As many as there are, in rdma_cm's parameters.
constexpr uint8_t kDeepest = 0xff;

/// The attributes of a connection that the program chose itself, unless `kDeepest`.
struct Depths {
  uint8_t responder_resources = kDeepest;
  uint8_t initiator_depth = kDeepest;
};

Result<std::shared_ptr<CmProgram>> lender(const ClientState& client) {
  auto program = client.borrowed.lock();
  if (program != nullptr) return program;
  return fail(EINVAL, "this connection knows no connection manager of its program; lend it one first");
}

void to_error(control::ControlQp& qp) { (void)qp.modify({.state = QpState::error}, QpAttrBit::state); }

/// From where `before` leaves the queue pair to RTS.
Result<void> to_connected(const ClientState& client, CmProgram& program, uint32_t id, control::ControlQp& qp,
                          std::vector<message::ModifyStep> steps, const Depths& depths) {
  std::array<message::ModifyStep, 3> known;
  for (const QpState state : {QpState::init, QpState::rtr, QpState::rts}) {
    const auto step = program.user().qp_attr(id, state);
    if (!step) return std::unexpected(step.error());
    known[static_cast<std::size_t>(state) - static_cast<std::size_t>(QpState::init)] = {step->second, step->first};
  }
  auto& [init, rtr, rts] = known;
  // Only now is it known whether the peer may READ; `before` was chosen when the queue pair was made.
  rtr.attr.access = init.attr.access;
  rtr.mask |= QpAttrBit::access_flags;
  if (depths.responder_resources != kDeepest) rtr.attr.max_dest_rd_atomic = depths.responder_resources;
  if (depths.initiator_depth != kDeepest) rts.attr.max_rd_atomic = depths.initiator_depth;
  steps.insert(steps.end(), {rtr, rts});
  return apply_steps(client, qp, steps);
}

/// Tells the program by an event, as it does not wait for a reply.
Result<Reply> told(CmProgram& program, uint32_t id, const Result<void>& result) {
  if (!result) program.user().report_failure(id, result.error().code);
  return done(result);
}

}  // namespace

Result<Reply> cm_lend(ClientState& client, const message::Empty& /*request*/) {
  return reply(client.server.programs().lend(client.connections));
}

Result<Reply> borrow_cm(ClientState& client, const message::CmPass& request) {
  auto program = client.server.programs().find(request, client.peer.uid);
  if (program == nullptr) return fail(EINVAL, "no connection of this user to the connection manager has this pass");
  client.borrowed = program;
  return Reply{};
}

Result<Reply> connect_qp(ClientState& client, const message::CmQpTerms& request) {
  const auto program = lender(client);
  if (!program) return std::unexpected(program.error());
  CmProgram& own = **program;
  const uint32_t id = request.terms.id;
  auto qp = client.qps.find(request.qp);
  if (!qp) return told(own, id, std::unexpected(qp.error()));
  if (auto few = check_count(**qp, request.before.size()); !few) return told(own, id, few);
  own.wait(id, {*qp, request.before});  // before the peer can answer
  const auto asked = own.user().connect(id, request.terms.param);
  if (!asked) {
    (void)own.stop_waiting(id);
    to_error(**qp);
  }
  return told(own, id, asked);
}

Result<Reply> accept_qp(ClientState& client, const message::CmQpTerms& request) {
  const auto program = lender(client);
  if (!program) return std::unexpected(program.error());
  CmProgram& own = **program;
  const auto& [id, param] = request.terms;
  auto qp = client.qps.find(request.qp);
  if (!qp) return told(own, id, std::unexpected(qp.error()));
  auto accepted =
      to_connected(client, own, id, **qp, request.before, {param.responder_resources, param.initiator_depth});
  if (accepted) accepted = own.user().accept(id, param);
  if (!accepted) to_error(**qp);
  return told(own, id, accepted);
}

Result<Reply> disconnect_qp(ClientState& client, const message::CmQpEnd& request) {
  const auto program = lender(client);
  if (!program) return std::unexpected(program.error());
  if (auto qp = client.qps.find(request.qp)) to_error(**qp);
  return done((*program)->user().disconnect(request.id.id));
}

void connect_waiting(ClientState& client, message::CmEventRecord& record, std::chrono::steady_clock::time_point until) {
  CmEvent& event = record.event;
  const bool answer = event.type == CmEventType::connect_response;
  if (!answer && event.type != CmEventType::rejected && event.type != CmEventType::unreachable) return;
  const auto waiting = client.connections->stop_waiting(event.id);
  if (!waiting || !answer || std::chrono::steady_clock::now() > until) return;
  const auto connecting = client.connections->connecting();
  const auto qp = waiting->qp.lock();
  if (qp == nullptr) return;
  auto connected = to_connected(client, *client.connections, event.id, *qp, waiting->before, {});
  if (connected) connected = client.connections->user().establish(event.id);
  if (!connected) to_error(*qp);
  event.type = connected ? CmEventType::established : CmEventType::connect_error;
  event.status = connected ? 0 : -connected.error().code;
  // It is all done that the program would need these for.
  record.has_info = false;
  record.known = {};
  record.steps.clear();
}

}  // namespace uroce::service
