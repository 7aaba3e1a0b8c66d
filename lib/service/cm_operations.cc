#include "service/cm_operations.h"

#include <cerrno>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "control/qp.h"
#include "message/cm_reject_reasons.h"
#include "net/address.h"

namespace uroce::service {
namespace {

/// The ids of one program, charged to its user.
class IdCharges final : public cm::IdBudget {
 public:
  IdCharges(std::shared_ptr<User> user, Peer peer) : user_(std::move(user)), peer_(std::move(peer)) {}
  Result<void> take() override {
    auto charge = user_->charge(Resource::cm_id, 1, peer_);
    if (!charge) return std::unexpected(charge.error());
    charges_.push_back(std::move(*charge));
    return {};
  }
  void give_back() override { charges_.pop_back(); }

 private:
  const std::shared_ptr<User> user_;
  const Peer peer_;
  std::vector<Charge> charges_;
};

/// Makes a call for an id and, unless `number` is 0, its queue pair. A program that waits for no reply is told of a
/// failure by an event, and cannot use the queue pair.
template <class Work>
Result<Reply> with_qp(ClientState& client, const Call& call, uint32_t id, uint32_t number, Work work) {
  std::shared_ptr<control::ControlQp> qp;
  Result<void> result;
  if (number != 0) {
    if (auto found = client.qps.find(number)) {
      qp = std::move(*found);
    } else {
      result = std::unexpected(found.error());
    }
  }
  if (result) result = work(qp);
  if (!result && !call.answered) {
    if (qp != nullptr) (void)qp->to_error();
    client.program.connections->report_failure(id, result.error().code);
  }
  return done(result);
}

std::string_view meaning_of(message::RejReason reason) {
  using message::RejReason;
  switch (reason) {
    case RejReason::no_qp:
    case RejReason::no_resources:
    case RejReason::insufficient_responder_resources: return "it has too few resources for the connection";
    case RejReason::timeout: return "it waited in vain for an answer";
    case RejReason::invalid_service_id: return "no program there listens on the port";
    case RejReason::stale_connection: return "it takes the queue pair for part of an earlier connection";
    case RejReason::primary_gid_rejected: return "the address is none of the device on which its program listens";
    case RejReason::invalid_path_mtu: return "its interface is for a smaller path MTU";
    case RejReason::consumer_reject: return "its program refused";
    default: return "see IBTA vol. 1, 12.6.7.2";
  }
}

std::string_view failure(CmEventType type) {
  switch (type) {
    case CmEventType::addr_error: return "its address was not resolved";
    case CmEventType::route_error: return "its route was not resolved";
    case CmEventType::connect_error: return "it was not connected";
    case CmEventType::unreachable: return "the peer did not answer";
    case CmEventType::multicast_error: return "it did not join a multicast group";
    default: return {};
  }
}

/// Notes a failure for `uroce explain`.
void note_event(const ClientState& client, const CmEvent& event) {
  std::string text;
  if (event.type == CmEventType::rejected) {
    text = fmt::format("the peer rejected it with reason {}: {}", event.status,
                       meaning_of(static_cast<message::RejReason>(event.status)));
  } else if (const std::string_view what = failure(event.type); !what.empty()) {
    // Host::resolve() has this error for nothing else.
    const bool not_allowed = event.type == CmEventType::addr_error && event.status == -EACCES;
    text = fmt::format("{}: {}", what,
                       not_allowed ? "the device's list of peers (device.allow) is without it"
                                   : std::generic_category().message(-event.status));
  } else {
    return;
  }
  auto info = client.program.connections->info(event.id);
  const std::string to = info && info->remote.port != 0
                             ? fmt::format(" to {} port {}", net::to_text(info->remote.ip), info->remote.port)
                             : std::string();
  client.server.history().note(
      client.program.id, client.peer,
      {.kind = History::Kind::trouble, .text = fmt::format("connection {}{}: {}", event.id, to, text)},
      std::chrono::steady_clock::now());
}

}  // namespace

Result<void> open_connection_manager(Program& program) {
  if (program.connections != nullptr) return {};
  cm::Manager* manager = program.server.connections();
  if (manager == nullptr) return fail(EOPNOTSUPP, "this daemon runs without a connection manager");
  program.connections = manager->open({.budget = std::make_shared<IdCharges>(program.user, program.peer),
                                       .privileged_ports = program.peer.privileged,
                                       .client = program.id,
                                       .user = program.user->owner(program.id).user});
  return {};
}

Result<Reply> cm_create_channel(ClientState& client, const message::Empty& /*request*/) {
  auto charge = client.charge(Resource::descriptor, kDescriptorsOfChannel);
  if (!charge) return std::unexpected(charge.error());
  auto channel = client.program.connections->create_channel();
  if (!channel) return std::unexpected(channel.error());
  client.program.cm_channels[channel->first] = std::move(*charge);
  auto out = reply(client, message::CmChannelReply{channel->first});
  out->fds.push_back(channel->second);
  return out;
}

Result<Reply> cm_destroy_channel(ClientState& client, const message::Handle& request) {
  auto destroyed = client.program.connections->destroy_channel(request.id);
  if (destroyed) client.program.cm_channels.erase(request.id);
  return done(destroyed);
}

Result<Reply> cm_take_events(ClientState& client, const message::Handle& request) {
  auto events = client.program.connections->take_events(request.id, message::kMaxEventsTaken);
  if (!events) return std::unexpected(events.error());
  for (const message::CmEventRecord& record : *events) note_event(client, record.event);
  return reply(client, message::CmEventsReply{std::move(*events)});
}

Result<Reply> cm_create_id(ClientState& client, const message::CmCreateId& request) {
  auto id = client.program.connections->create_id(request.channel, request.space, request.type);
  if (!id) return std::unexpected(id.error());
  return reply(client, message::Handle{*id});
}

Result<Reply> cm_destroy_id(ClientState& client, const message::Handle& request) {
  return done(client.program.connections->destroy_id(request.id));
}

Result<Reply> cm_info(ClientState& client, const message::Handle& request) {
  auto info = client.program.connections->info(request.id);
  if (!info) return std::unexpected(info.error());
  return reply(client, message::CmInfoReply{std::move(*info)});
}

// A program that is started anew at once finds the port of the one that was killed in use for a moment.
Result<Reply> cm_bind(ClientState& client, const message::CmBind& request) {
  const auto bind = [&] { return client.program.connections->bind(request.id, request.local); };
  auto bound = bind();
  if (!bound && bound.error().code == EADDRINUSE && client.program.server.await_departing()) bound = bind();
  return done(bound);
}

Result<Reply> cm_resolve_addr(ClientState& client, const message::CmResolve& request) {
  const auto local = request.has_local ? std::optional(request.local) : std::nullopt;
  const std::chrono::milliseconds timeout(request.timeout_ms);
  return done(client.program.connections->resolve_addr(request.id, local, request.remote, timeout));
}

Result<Reply> cm_resolve_route(ClientState& client, const message::Handle& request) {
  return done(client.program.connections->resolve_route(request.id));
}

Result<Reply> cm_listen(ClientState& client, const message::CmListen& request) {
  return done(client.program.connections->listen(request.id, request.backlog));
}

Result<Reply> cm_connect(ClientState& client, const message::CmTerms& request, Call& call) {
  cm::ManagerUser& manager = *client.program.connections;
  return with_qp(client, call, request.id, request.qp, [&](const std::shared_ptr<control::ControlQp>& qp) {
    return qp != nullptr ? manager.connect_qp(request.id, request.param, qp)
                         : manager.connect(request.id, request.param);
  });
}

Result<Reply> cm_establish(ClientState& client, const message::Handle& request) {
  return done(client.program.connections->establish(request.id));
}

Result<Reply> cm_accept(ClientState& client, const message::CmTerms& request, Call& call) {
  cm::ManagerUser& manager = *client.program.connections;
  return with_qp(client, call, request.id, request.qp, [&](const std::shared_ptr<control::ControlQp>& qp) {
    return qp != nullptr ? manager.accept_qp(request.id, request.param, qp) : manager.accept(request.id, request.param);
  });
}

Result<Reply> cm_reject(ClientState& client, const message::CmReject& request) {
  return done(client.program.connections->reject(request.id, request.private_data, request.reason));
}

Result<Reply> cm_disconnect(ClientState& client, const message::CmDisconnect& request, Call& call) {
  Result<void> flushed;
  if (request.qp != 0) {
    auto qp = client.qps.find(request.qp);
    flushed = qp ? (*qp)->to_error() : std::unexpected(qp.error());
  }
  // A program that waits for no reply waits for the event of the connection's end.
  if (!flushed && call.answered) return done(flushed);
  auto disconnected = client.program.connections->disconnect(request.id);
  return done(flushed ? disconnected : flushed);
}

Result<Reply> cm_notify_established(ClientState& client, const message::Handle& request) {
  return done(client.program.connections->notify_established(request.id));
}

Result<Reply> cm_qp_attr(ClientState& client, const message::CmQpAttr& request) {
  auto found = client.program.connections->qp_attr(request.id, request.state);
  if (!found) return std::unexpected(found.error());
  return reply(client, message::ModifyStep{found->second, found->first});
}

Result<Reply> cm_set_option(ClientState& client, const message::CmSetOption& request) {
  return done(client.program.connections->set_option(request.id, request.option, request.value));
}

Result<Reply> cm_join(ClientState& client, const message::CmGroup& request) {
  return done(client.program.connections->join(request.id, request.group, request.token));
}

Result<Reply> cm_leave(ClientState& client, const message::CmGroup& request) {
  return done(client.program.connections->leave(request.id, request.group));
}

Result<Reply> cm_raise_event(ClientState& client, const message::CmRaiseEvent& request) {
  return done(client.program.connections->raise_event(request.id, request.type, request.status, request.argument));
}

Result<Reply> cm_migrate(ClientState& client, const message::CmMigrate& request) {
  return done(client.program.connections->migrate(request.id, request.channel, request.taken));
}

}  // namespace uroce::service
