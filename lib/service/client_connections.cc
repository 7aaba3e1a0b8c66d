// What the connection manager's messages do: each is one call for this client's ids.
#include <cerrno>

#include <fmt/format.h>

#include "message/cm_messages.h"
#include "service/client.h"
#include "service/client_reply.h"

namespace uroce::service {

using message::Op;

namespace {

message::CmToldEvent message_of(cm::ToldEvent told) {
  message::CmToldEvent out{.event = std::move(told.event), .has_info = told.info.has_value()};
  if (told.info) out.known.info = std::move(*told.info);
  for (const auto& [attr, mask] : told.steps) out.steps.push_back({mask, attr});
  return out;
}

}  // namespace

Result<Client::Reply> Client::call_connections(Op op, std::span<const std::byte> bytes) {
  if (connections_ == nullptr) {
    cm::Manager* manager = server_.connections();
    if (manager == nullptr) return fail(EOPNOTSUPP, "this daemon runs without a connection manager");
    connections_ = manager->open({.max_ids = limits_.max_cm_id, .privileged_ports = uid_ == 0});
  }
  cm::ManagerUser& user = *connections_;
  // A call that answers with nothing but how it went.
  const auto done = [](Result<void> result) -> Result<Reply> {
    if (!result) return std::unexpected(result.error());
    return Reply{};
  };
  const auto on_id = [&](Result<void> (cm::ManagerUser::*work)(uint32_t)) {
    return with<message::Handle>(bytes, [&](const auto& request) { return done((user.*work)(request.id)); });
  };
  switch (op) {
    case Op::cm_destroy_channel: return on_id(&cm::ManagerUser::destroy_channel);
    case Op::cm_destroy_id: return on_id(&cm::ManagerUser::destroy_id);
    case Op::cm_resolve_route: return on_id(&cm::ManagerUser::resolve_route);
    case Op::cm_establish: return on_id(&cm::ManagerUser::establish);
    case Op::cm_disconnect: return on_id(&cm::ManagerUser::disconnect);
    case Op::cm_notify_established: return on_id(&cm::ManagerUser::notify_established);
    case Op::cm_bind:
      return with<message::CmBind>(bytes,
                                   [&](const auto& request) { return done(user.bind(request.id, request.local)); });
    case Op::cm_resolve_addr:
      return with<message::CmResolve>(bytes, [&](const auto& request) {
        const auto local = request.has_local ? std::optional<CmAddress>(request.local) : std::nullopt;
        return done(
            user.resolve_addr(request.id, local, request.remote, std::chrono::milliseconds(request.timeout_ms)));
      });
    case Op::cm_listen:
      return with<message::CmListen>(
          bytes, [&](const auto& request) { return done(user.listen(request.id, request.backlog)); });
    case Op::cm_connect:
      return with<message::CmTerms>(bytes,
                                    [&](const auto& request) { return done(user.connect(request.id, request.param)); });
    case Op::cm_accept:
      return with<message::CmTerms>(bytes,
                                    [&](const auto& request) { return done(user.accept(request.id, request.param)); });
    case Op::cm_reject:
      return with<message::CmReject>(bytes, [&](const auto& request) {
        return done(user.reject(request.id, request.private_data, request.reason));
      });
    case Op::cm_set_option:
      return with<message::CmSetOption>(bytes, [&](const auto& request) {
        return done(user.set_option(request.id, request.option, request.value));
      });
    case Op::cm_join:
      return with<message::CmGroup>(
          bytes, [&](const auto& request) { return done(user.join(request.id, request.group, request.token)); });
    case Op::cm_leave:
      return with<message::CmGroup>(bytes,
                                    [&](const auto& request) { return done(user.leave(request.id, request.group)); });
    case Op::cm_migrate:
      return with<message::CmMigrate>(
          bytes, [&](const auto& request) { return done(user.migrate(request.id, request.channel, request.taken)); });
    default: return ask_connections(op, bytes);
  }
}

Result<Client::Reply> Client::ask_connections(Op op, std::span<const std::byte> bytes) {
  cm::ManagerUser& user = *connections_;
  switch (op) {
    case Op::cm_create_channel:
      return with<message::Empty>(bytes, [&](const auto&) -> Result<Reply> {
        auto channel = user.create_channel();
        if (!channel) return std::unexpected(channel.error());
        auto out = reply(message::CmChannelReply{channel->first});
        out->fds.push_back(channel->second);
        return out;
      });
    case Op::cm_take_events:
      return with<message::Handle>(bytes, [&](const auto& request) -> Result<Reply> {
        auto events = user.take_events(request.id, message::kMaxEventsTaken);
        if (!events) return std::unexpected(events.error());
        message::CmEventsReply answer;
        for (cm::ToldEvent& told : *events) answer.events.push_back(message_of(std::move(told)));
        return reply(answer);
      });
    case Op::cm_create_id:
      return with<message::CmCreateId>(bytes, [&](const auto& request) -> Result<Reply> {
        auto id = user.create_id(request.channel, request.space, request.type);
        if (!id) return std::unexpected(id.error());
        return reply(message::Handle{*id});
      });
    case Op::cm_info:
      return with<message::Handle>(bytes, [&](const auto& request) -> Result<Reply> {
        auto info = user.info(request.id);
        if (!info) return std::unexpected(info.error());
        return reply(message::CmInfoReply{std::move(*info)});
      });
    case Op::cm_qp_attr:
      return with<message::CmQpAttr>(bytes, [&](const auto& request) -> Result<Reply> {
        auto found = user.qp_attr(request.id, request.state);
        if (!found) return std::unexpected(found.error());
        return reply(message::ModifyStep{found->second, found->first});
      });
    default: break;
  }
  malformed_ = true;
  return fail(EPROTO, fmt::format("there is no message {}", static_cast<uint32_t>(op)));
}

}  // namespace uroce::service
