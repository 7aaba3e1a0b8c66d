// The calls of <uroce/cm.h>. Each sends a message to the daemon's connection manager.
#include <uroce/cm.h>

#include <algorithm>
#include <cerrno>

#include "client/cm_impl.h"

namespace uroce {

using message::CmOption;
using message::Op;

// --- Manager and channel -----------------------------------------------------------------------------------------

Result<ConnectionManager> ConnectionManager::open(const DaemonOptions& options) {
  auto link = client::DaemonLink::open(options);
  if (!link) return std::unexpected(link.error());
  return ConnectionManager(std::make_shared<client::CmImpl>(std::move(*link)));
}

Result<CmChannel> ConnectionManager::create_channel() {
  std::vector<message::Fd> fds;
  auto reply = impl_->call<message::CmChannelReply>(Op::cm_create_channel, message::Empty{}, &fds);
  if (!reply) return std::unexpected(reply.error());
  if (fds.size() != 1) return fail(EPROTO, "the uroce daemon: the reply with an event channel has no descriptor");
  return CmChannel(std::make_shared<client::CmChannelImpl>(impl_, reply->channel, std::move(fds[0])));
}

Result<CmId> ConnectionManager::create_id(const CmChannel& channel, PortSpace space, QpType type) {
  const message::CmCreateId request{channel.impl_->number(), space, type};
  auto reply = impl_->call<message::Handle>(Op::cm_create_id, request);
  if (!reply) return std::unexpected(reply.error());
  return CmId(std::make_shared<client::CmIdImpl>(channel.impl_, reply->id));
}

Result<CmId> ConnectionManager::adopt(const CmEvent& request) {
  auto made = impl_->take_request(request.id);
  auto channel = made ? made->channel.lock() : nullptr;
  if (channel == nullptr) {
    return fail(EINVAL, "communication id " + std::to_string(request.id) +
                            " is not that of a new connect_request; adopt each request once, while its channel exists");
  }
  return CmId(std::make_shared<client::CmIdImpl>(std::move(channel), request.id, std::move(made->known),
                                                 client::CmStage::requested));
}

Result<CmPass> ConnectionManager::pass() {
  auto reply = impl_->call<message::CmPass>(Op::cm_lend, message::Empty{});
  if (!reply) return std::unexpected(reply.error());
  return reply->words;
}

int CmChannel::fd() const { return impl_->fd(); }
std::optional<CmEvent> CmChannel::take() { return impl_->take(); }
std::optional<CmEvent> CmChannel::wait(std::chrono::nanoseconds timeout) { return impl_->wait(timeout); }

// --- Ids -------------------------------------------------------------------------------------------------------

uint32_t CmId::number() const { return impl_->number(); }

Result<CmIdInfo> CmId::info() const {
  if (auto known = impl_->known(); known.info) return std::move(*known.info);
  auto reply = impl_->manager().call<message::CmInfoReply>(Op::cm_info, impl_->handle());
  if (!reply) return std::unexpected(reply.error());
  return std::move(reply->info);
}

Result<void> CmId::bind(const CmAddress& local) {
  impl_->has_known_port();
  return impl_->change(Op::cm_bind, message::CmBind{number(), local});
}

Result<void> CmId::resolve_addr(const std::optional<CmAddress>& local, const CmAddress& remote,
                                std::chrono::milliseconds timeout) {
  const message::CmResolve request{
      .id = number(),
      .has_local = local.has_value(),
      .local = local.value_or(CmAddress{}),
      .remote = remote,
      .timeout_ms = static_cast<uint32_t>(std::clamp<int64_t>(timeout.count(), 0, UINT32_MAX))};
  if (local && local->port != 0) impl_->has_known_port();
  return impl_->change(Op::cm_resolve_addr, request);
}

Result<void> CmId::resolve_route(std::chrono::milliseconds) { return impl_->resolve_route(); }
Result<void> CmId::establish() { return impl_->send(Op::cm_establish); }
Result<void> CmId::disconnect() { return impl_->send(Op::cm_disconnect); }
Result<void> CmId::notify_established() { return impl_->send(Op::cm_notify_established); }

Result<void> CmId::listen(int backlog) {
  impl_->has_known_port();
  return impl_->change(Op::cm_listen, message::CmListen{number(), backlog});
}

Result<void> CmId::connect(const CmParam& param) {
  return impl_->change(Op::cm_connect, message::CmTerms{number(), param});
}

Result<void> CmId::accept(const CmParam& param) {
  return impl_->change(Op::cm_accept, message::CmTerms{number(), param});
}

namespace {

/// Private data beside the header of rdma_cm (annex A11), in a REQ and a REP.
constexpr std::size_t kConnectData = 56, kAcceptData = 196;

}  // namespace

Result<bool> CmId::connect(const CmParam& param, CmCarrier& carrier) {
  using enum client::CmStage;
  if (param.private_data.size() > kConnectData) return false;
  return impl_->carry(route_resolved, other, carrier, Op::connect_qp, message::CmTerms{number(), param});
}

Result<bool> CmId::accept(const CmParam& param, CmCarrier& carrier) {
  using enum client::CmStage;
  if (param.private_data.size() > kAcceptData) return false;
  return impl_->carry(requested, joined, carrier, Op::accept_qp, message::CmTerms{number(), param});
}

Result<bool> CmId::disconnect(CmCarrier& carrier) {
  using enum client::CmStage;
  auto carried = impl_->carry(joined, other, carrier, Op::disconnect_qp, impl_->handle());
  if (!carried || *carried) return carried;
  return impl_->carry(ended, ended, carrier, Op::disconnect_qp, impl_->handle());  // the queue pair moves to error
}

Result<void> CmId::reject(std::span<const std::byte> private_data, uint8_t reason) {
  const message::CmReject request{number(), reason, {private_data.begin(), private_data.end()}};
  return impl_->send(Op::cm_reject, request);
}

Result<std::pair<QpAttr, QpAttrMask>> CmId::qp_attr(QpState state) const {
  for (const message::ModifyStep& step : impl_->known().steps) {
    if (step.attr.state == state) return std::pair(step.attr, step.mask);
  }
  auto reply = impl_->manager().call<message::ModifyStep>(Op::cm_qp_attr, message::CmQpAttr{number(), state});
  if (!reply) return std::unexpected(reply.error());
  return std::pair(reply->attr, reply->mask);
}

namespace {

Result<void> set_option(client::CmIdImpl& id, CmOption option, uint8_t value) {
  return id.change(Op::cm_set_option, message::CmSetOption{id.number(), option, value});
}

}  // namespace

Result<void> CmId::set_type_of_service(uint8_t tos) { return set_option(*impl_, CmOption::type_of_service, tos); }
Result<void> CmId::set_reuse_address(bool on) { return set_option(*impl_, CmOption::reuse_address, on ? 1 : 0); }
Result<void> CmId::set_af_only(bool on) { return set_option(*impl_, CmOption::af_only, on ? 1 : 0); }
Result<void> CmId::set_ack_timeout(uint8_t code) { return set_option(*impl_, CmOption::ack_timeout, code); }

Result<void> CmId::join(const CmAddress& group, uint64_t token) {
  const message::CmGroup request{number(), group, token};
  return impl_->send(Op::cm_join, request);
}

Result<void> CmId::leave(const CmAddress& group) {
  return impl_->send(Op::cm_leave, message::CmGroup{.id = number(), .group = group});
}

Result<void> CmId::migrate(const CmChannel& channel) { return impl_->migrate(channel.impl_); }

}  // namespace uroce
