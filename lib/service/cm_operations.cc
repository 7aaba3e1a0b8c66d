#include "service/cm_operations.h"

#include <chrono>
#include <optional>

#include "service/cm_qp_operations.h"

namespace uroce::service {
namespace {

/// How long a program that asks for its events waits at most until its queue pairs are connected, and a last one. A
/// client gives its reply 30 s.
constexpr std::chrono::seconds kConnectFor{10};

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

}  // namespace

Result<void> open_connection_manager(ClientState& client) {
  if (client.connections != nullptr) return {};
  cm::Manager* manager = client.server.connections();
  if (manager == nullptr) return fail(EOPNOTSUPP, "this daemon runs without a connection manager");
  auto user = manager->open(
      {.budget = std::make_shared<IdCharges>(client.user, client.peer), .privileged_ports = client.peer.privileged});
  client.connections = std::make_shared<CmProgram>(std::move(user), client.peer.uid);
  return {};
}

Result<Reply> cm_create_channel(ClientState& client, const message::Empty& /*request*/) {
  auto charge = client.charge(Resource::descriptor, kDescriptorsOfChannel);
  if (!charge) return std::unexpected(charge.error());
  auto channel = client.connections->user().create_channel();
  if (!channel) return std::unexpected(channel.error());
  client.cm_channels[channel->first] = std::move(*charge);
  auto out = reply(message::CmChannelReply{channel->first});
  out->fds.push_back(channel->second);
  return out;
}

Result<Reply> cm_destroy_channel(ClientState& client, const message::Handle& request) {
  auto destroyed = client.connections->user().destroy_channel(request.id);
  if (destroyed) client.cm_channels.erase(request.id);
  return done(destroyed);
}

Result<Reply> cm_take_events(ClientState& client, const message::Handle& request) {
  auto events = client.connections->user().take_events(request.id, message::kMaxEventsTaken);
  if (!events) return std::unexpected(events.error());
  const auto until = std::chrono::steady_clock::now() + kConnectFor;
  for (message::CmEventRecord& record : *events) connect_waiting(client, record, until);
  return reply(message::CmEventsReply{std::move(*events)});
}

Result<Reply> cm_create_id(ClientState& client, const message::CmCreateId& request) {
  auto id = client.connections->user().create_id(request.channel, request.space, request.type);
  if (!id) return std::unexpected(id.error());
  return reply(message::Handle{*id});
}

Result<Reply> cm_destroy_id(ClientState& client, const message::Handle& request) {
  (void)client.connections->stop_waiting(request.id);
  return done(client.connections->user().destroy_id(request.id));
}

Result<Reply> cm_info(ClientState& client, const message::Handle& request) {
  auto info = client.connections->user().info(request.id);
  if (!info) return std::unexpected(info.error());
  return reply(message::CmInfoReply{std::move(*info)});
}

Result<Reply> cm_bind(ClientState& client, const message::CmBind& request) {
  return done(client.connections->user().bind(request.id, request.local));
}

Result<Reply> cm_resolve_addr(ClientState& client, const message::CmResolve& request) {
  const auto local = request.has_local ? std::optional(request.local) : std::nullopt;
  const std::chrono::milliseconds timeout(request.timeout_ms);
  return done(client.connections->user().resolve_addr(request.id, local, request.remote, timeout));
}

Result<Reply> cm_resolve_route(ClientState& client, const message::Handle& request) {
  return done(client.connections->user().resolve_route(request.id));
}

Result<Reply> cm_listen(ClientState& client, const message::CmListen& request) {
  return done(client.connections->user().listen(request.id, request.backlog));
}

Result<Reply> cm_connect(ClientState& client, const message::CmTerms& request) {
  return done(client.connections->user().connect(request.id, request.param));
}

Result<Reply> cm_establish(ClientState& client, const message::Handle& request) {
  return done(client.connections->user().establish(request.id));
}

Result<Reply> cm_accept(ClientState& client, const message::CmTerms& request) {
  return done(client.connections->user().accept(request.id, request.param));
}

Result<Reply> cm_reject(ClientState& client, const message::CmReject& request) {
  return done(client.connections->user().reject(request.id, request.private_data, request.reason));
}

Result<Reply> cm_disconnect(ClientState& client, const message::Handle& request) {
  return done(client.connections->user().disconnect(request.id));
}

Result<Reply> cm_notify_established(ClientState& client, const message::Handle& request) {
  return done(client.connections->user().notify_established(request.id));
}

Result<Reply> cm_qp_attr(ClientState& client, const message::CmQpAttr& request) {
  auto found = client.connections->user().qp_attr(request.id, request.state);
  if (!found) return std::unexpected(found.error());
  return reply(message::ModifyStep{found->second, found->first});
}

Result<Reply> cm_set_option(ClientState& client, const message::CmSetOption& request) {
  return done(client.connections->user().set_option(request.id, request.option, request.value));
}

Result<Reply> cm_join(ClientState& client, const message::CmGroup& request) {
  return done(client.connections->user().join(request.id, request.group, request.token));
}

Result<Reply> cm_leave(ClientState& client, const message::CmGroup& request) {
  return done(client.connections->user().leave(request.id, request.group));
}

Result<Reply> cm_migrate(ClientState& client, const message::CmMigrate& request) {
  return done(client.connections->user().migrate(request.id, request.channel, request.taken));
}

}  // namespace uroce::service
