// Connections: programs' calls, and events of the IB connection managers.
#include <algorithm>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "cm/manager_impl.h"
#include "cm/rdma_header.h"
#include "control/device_limits.h"

namespace uroce::cm {
namespace {

/// The CM response timeout: 4.096 us * 2^20 (4.3 s), as in Linux.
constexpr uint8_t kCmTimeout = 20;
constexpr uint8_t kCmRetries = 15;

Result<void> check_private(const Id& id, std::size_t bytes, std::size_t most) {
  if (bytes <= most) return {};
  return fail(EINVAL, fmt::format("communication id {}: {} bytes of private data are too many; at most {} fit",
                                  id.number, bytes, most));
}

/// Where the peer of a request means to go.
CmAddress destination_of(const CmRequest& request, const RdmaHeader& header) {
  return {header.destination, static_cast<uint16_t>(request.service_id)};
}

}  // namespace

Result<void> Manager::Impl::connect(Id& id, const CmParam& param) {
  if (id.state != IdState::route_resolved) return wrong_state(id, "connect", "a resolved route");
  if (id.type == QpType::xrc_target) {
    return fail(
        EINVAL,
        fmt::format("communication id {} cannot connect: an XRC target waits for an initiator's request", id.number));
  }
  const bool ud = id.type == QpType::ud;
  const std::size_t room = (ud ? kSidrReqPrivate : kReqPrivate) - RdmaHeader::kBytes;
  if (auto ok = check_private(id, param.private_data.size(), room); !ok) return ok;
  CmRequest request{.service_id = rdma_service_id(static_cast<uint16_t>(id.space), id.remote.port),
                    .type = id.type,
                    .qpn = param.qpn,
                    .psn = id.psn,
                    .responder_resources = param.responder_resources,
                    .initiator_depth = param.initiator_depth,
                    .retry_count = std::min<uint8_t>(param.retry_count, 7),
                    .rnr_retry_count = std::min<uint8_t>(param.rnr_retry_count, 7),
                    .max_cm_retries = kCmRetries,
                    .remote_cm_timeout = kCmTimeout,
                    .local_cm_timeout = kCmTimeout,
                    .flow_control = param.flow_control,
                    .srq = param.srq,
                    .ece_vendor = param.ece_vendor,
                    .ece_options = param.ece_options};
  request.path = {.sgid = id.sgid,
                  .dgid = id.dgid,
                  .traffic_class = id.type_of_service,
                  .mtu = id.agent->device->config().max_path_mtu,
                  .ack_timeout = id.ack_timeout.value_or(kAckTimeout)};
  request.private_data.resize(RdmaHeader::kBytes);
  RdmaHeader{.ip_version = static_cast<uint8_t>(id.sgid.is_ipv4() ? 4 : 6),
             .source_port = id.local.port,
             .source = id.sgid,
             .destination = id.remote.ip}
      .store(request.private_data.data());
  request.private_data.insert(request.private_data.end(), param.private_data.begin(), param.private_data.end());
  Result<IbCm::Started> connection = id.agent->cm.connect(request, now);
  if (!connection) return std::unexpected(connection.error());
  id.connection = connection->id;
  id.agent->connections[id.connection] = &id;
  id.responder_resources = param.responder_resources;
  id.initiator_depth = param.initiator_depth;
  id.state = IdState::connecting;
  carry_out(*id.agent, std::move(connection->actions));
  return {};
}

Result<void> Manager::Impl::accept(Id& id, const CmParam& param) {
  if (id.state != IdState::requested) return wrong_state(id, "accept", "a request that is not answered yet");
  const bool ud = id.type == QpType::ud;
  const std::size_t room = ud ? kSidrRepPrivate : kRepPrivate;
  if (auto ok = check_private(id, param.private_data.size(), room); !ok) return ok;
  const CmReply reply{.qpn = param.qpn,
                      .psn = id.psn,
                      .qkey = ud && param.qkey == 0 ? kUdpQkey : param.qkey,
                      .responder_resources = param.responder_resources,
                      .initiator_depth = param.initiator_depth,
                      .rnr_retry_count = std::min<uint8_t>(param.rnr_retry_count, 7),
                      .flow_control = param.flow_control,
                      .srq = param.srq,
                      .ece_vendor = param.ece_vendor,
                      .ece_options = param.ece_options,
                      .private_data = param.private_data};
  if (auto sent = carry_out(*id.agent, id.agent->cm.accept(id.connection, reply, now)); !sent) return sent;
  id.responder_resources = param.responder_resources;
  id.initiator_depth = param.initiator_depth;
  id.state = ud ? IdState::connected : IdState::accepted;
  return {};
}

Result<void> Manager::Impl::reject(Id& id, std::span<const std::byte> private_data, uint8_t reason) {
  if (id.state != IdState::requested && id.state != IdState::replied)
    return wrong_state(id, "reject", "a REQ or REP that is not answered yet");
  const std::size_t room = id.type == QpType::ud ? kSidrRepPrivate : kRejPrivate;
  if (auto ok = check_private(id, private_data.size(), room); !ok) return ok;
  auto rejected = id.agent->cm.reject(id.connection, static_cast<RejReason>(reason), {}, private_data, now);
  if (auto sent = carry_out(*id.agent, std::move(rejected)); !sent) return sent;
  forget_answer(id);
  id.state = IdState::disconnected;
  return {};
}

Result<void> Manager::Impl::disconnect(Id& id) {
  switch (id.state) {
    // Both sides may disconnect at once. The connection manager has answered the peer's DREQ already.
    case IdState::disconnecting:
    case IdState::disconnected: return {};
    case IdState::connected:
    case IdState::accepted:
    case IdState::replied: break;
    default: return wrong_state(id, "disconnect", "a connection");
  }
  if (id.type == QpType::ud)
    return fail(EINVAL,
                fmt::format("disconnect: communication id {} is for datagrams and has no connection", id.number));
  if (auto sent = carry_out(*id.agent, id.agent->cm.disconnect(id.connection, {}, now)); !sent) return sent;
  forget_answer(id);
  id.state = IdState::disconnecting;
  return {};
}

void Manager::Impl::on_event(CmAgent& agent, CmMessage&& message) {
  if (message.kind == CmEventKind::request) return on_request(agent, message.id, std::move(message.request));
  if (message.kind == CmEventKind::withdrawn) return on_withdrawn(agent, message.id);
  const auto found = agent.connections.find(message.id);
  if (found == agent.connections.end()) return;
  Id& id = *found->second;
  if (id.held) {  // the peer has given its request up, of which the program has not heard
    id.state = IdState::disconnected;
    return;
  }
  if (message.kind != CmEventKind::reply) forget_answer(id);
  CmEvent event;
  event.param.private_data = std::move(message.private_data);
  switch (message.kind) {
    case CmEventKind::request:
    case CmEventKind::withdrawn: return;
    case CmEventKind::reply: return on_reply(id, std::move(message.reply));
    case CmEventKind::established:
      id.state = IdState::connected;
      event.type = CmEventType::established;
      if (id.type != QpType::ud) break;
      event.param.private_data = std::move(message.reply.private_data);
      event.param.qpn = message.reply.qpn;
      event.param.qkey = message.reply.qkey;
      event.av = {
          .dgid = id.dgid, .sgid_index = agent.gid_index(id.sgid).value_or(0), .traffic_class = id.type_of_service};
      break;
    case CmEventKind::rejected:
      if (connects_with_less(id, message)) return;
      id.state = IdState::disconnected;
      // rdma_cm(7) has no rejected event for datagrams: it reports the status of a SIDR_REP as unreachable.
      event.type = id.type == QpType::ud ? CmEventType::unreachable : CmEventType::rejected;
      event.status = message.reason;
      break;
    case CmEventKind::disconnected:
      id.state = IdState::disconnected;
      event.type = CmEventType::disconnected;
      break;
    case CmEventKind::unreachable:
      id.state = IdState::disconnected;
      event.type = CmEventType::unreachable;
      event.status = -ETIMEDOUT;
      break;
    case CmEventKind::timewait_exit: event.type = CmEventType::timewait_exit; break;
  }
  raise_event(id, std::move(event));
}

void Manager::Impl::on_request(CmAgent& agent, uint32_t connection, CmRequest&& request) {
  const auto refuse = [&](RejReason reason, std::span<const std::byte> info = {}) {
    (void)carry_out(agent, agent.cm.reject(connection, reason, info, {}, now));
    carry_out(agent, agent.cm.destroy(connection, now));
  };
  const auto header = RdmaHeader::parse(request.private_data);
  if (!header) return refuse(RejReason::invalid_service_id);
  const CmAddress local = destination_of(request, *header);
  Id* const listener = listener_for(agent, request, local);
  if (listener == nullptr) return refuse(RejReason::invalid_service_id);
  const Mtu most = agent.device->config().max_path_mtu;
  if (request.type != QpType::ud && request.path.mtu > most)
    return refuse(RejReason::invalid_path_mtu, std::as_bytes(std::span(&most, 1)));
  if (listener->owner->unread >= kMaxUnread || !listener->owner->reserve_id()) return refuse(RejReason::no_resources);
  Id& id = make_id(*listener->owner, listener->channel, listener->space, request.type);
  id.local = local;
  id.remote = {header->source, header->source_port};
  id.agent = &agent;
  id.sgid = request.path.sgid;
  id.dgid = request.path.dgid;
  id.type_of_service = request.path.traffic_class;
  id.connection = connection;
  id.listener = listener->number;
  // From our point of view: our resources serve the peer's depth, and the other way round.
  id.responder_resources = request.initiator_depth;
  id.initiator_depth = request.responder_resources;
  id.state = IdState::held;
  agent.connections[connection] = &id;
  CmEvent event{.type = CmEventType::connect_request, .listener = listener->number};
  request.private_data.erase(request.private_data.begin(), request.private_data.begin() + RdmaHeader::kBytes);
  event.param = {.private_data = std::move(request.private_data),
                 .responder_resources = id.responder_resources,
                 .initiator_depth = id.initiator_depth,
                 .flow_control = request.flow_control,
                 .retry_count = request.retry_count,
                 .rnr_retry_count = request.rnr_retry_count,
                 .srq = request.srq,
                 .qpn = request.qpn,
                 .ece_vendor = request.ece_vendor,
                 .ece_options = request.ece_options};
  event.av = {.dgid = id.dgid, .sgid_index = agent.gid_index(id.sgid).value_or(0), .traffic_class = id.type_of_service};
  hold(id, std::move(event));
}

void Manager::Impl::hold(Id& id, CmEvent event) {
  id.held = std::move(event);
  begin_resolving(id, control::kResolveTimeout);
}

void Manager::Impl::end_hold(Id& id, bool reachable) {
  if (id.state != IdState::held) return destroy(id);
  IbCm& cm = id.agent->cm;
  // The listener exists: its held requests end with it.
  if (!reachable) {
    cm.drop_request(id.connection);
    return on_withdrawn(*id.agent, id.connection);
  }
  auto moved = cm.move_request(id.connection, ids.at(id.listener)->backlog);
  if (!moved) return on_withdrawn(*id.agent, id.connection);
  carry_out(*id.agent, std::move(*moved));
  id.state = IdState::requested;
  CmEvent event = *std::exchange(id.held, std::nullopt);
  raise_event(id, std::move(event));
}

/// The program has not received the request's event, and never will.
void Manager::Impl::on_withdrawn(CmAgent& agent, uint32_t connection) {
  const auto found = agent.connections.find(connection);
  if (found == agent.connections.end()) return;
  Id& id = *found->second;
  agent.connections.erase(found);
  id.connection = 0;
  destroy(id);
}

std::shared_ptr<Backlog> Manager::Impl::backlog_for(const CmAgent& agent, const CmRequest& request) const {
  const auto header = RdmaHeader::parse(request.private_data);
  if (!header) return nullptr;
  const Id* const listener = listener_for(agent, request, destination_of(request, *header));
  if (listener == nullptr) return nullptr;
  // A stranger may name addresses that never answer. Such a request takes nobody's place in the backlog.
  const auto known = agent.device->probe(request.path.sgid, request.path.dgid, transport::Owner::kNobody);
  return known || known.error().code != EHOSTUNREACH ? listener->backlog : listener->holds;
}

void Manager::Impl::note_wrong_keys(CmAgent& agent) {
  for (const control::WrongKeys& ends : agent.device->events().take_wrong_keys()) {
    slowdown.on_wrong_keys(ends.peer, ends.user, ends.connections, now);
  }
}

bool Manager::Impl::slows(CmAgent& agent, const CmRequest& request) {
  if (slowdown.empty() || request.type == QpType::ud) return false;
  const auto header = RdmaHeader::parse(request.private_data);
  if (!header) return false;
  const Id* const listener = listener_for(agent, request, destination_of(request, *header));
  if (listener == nullptr || slowdown.admits(request.path.dgid, listener->owner->user, now)) return false;
  agent.slowed.add();
  agent.last_slowed = request.path.dgid;
  return true;
}

void Manager::Impl::on_reply(Id& id, CmReply&& reply) {
  id.state = IdState::replied;
  id.responder_resources = reply.initiator_depth;
  id.initiator_depth = reply.responder_resources;
  CmEvent event{.type = CmEventType::connect_response};
  event.param = {.private_data = std::move(reply.private_data),
                 .responder_resources = id.responder_resources,
                 .initiator_depth = id.initiator_depth,
                 .flow_control = reply.flow_control,
                 .rnr_retry_count = reply.rnr_retry_count,
                 .srq = reply.srq,
                 .qpn = reply.qpn,
                 .ece_vendor = reply.ece_vendor,
                 .ece_options = reply.ece_options};
  if (id.qp.expired()) return raise_event(id, std::move(event));
  id.answer = std::move(event);
  answered.push_back(id.number);
}

void Manager::Impl::forget_answer(Id& id) {
  id.answer.reset();
  id.qp.reset();
  resolving.remove(*id.owner, id);
}

void Manager::Impl::resolve_answered() {
  for (const uint32_t number : std::exchange(answered, {})) {
    const auto found = ids.find(number);
    if (found != ids.end() && found->second->answer) begin_resolving(*found->second, control::kResolveTimeout);
  }
}

}  // namespace uroce::cm
