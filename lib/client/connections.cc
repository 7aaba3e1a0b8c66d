// The calls of <uroce/cm.h>, for the connection manager of the daemon or of this process.
#include <uroce/cm.h>

#include <cerrno>

#include <uroce/verbs/queue_pair.h>

#include "client/cm_impl.h"

namespace uroce {

using message::CmCalls;
using message::CmOption;

// --- Manager and channel -----------------------------------------------------------------------------------------

Result<CmChannel> ConnectionManager::create_channel() {
  auto made = impl_->create_channel();
  if (!made) return std::unexpected(made.error());
  return CmChannel(std::make_shared<client::CmChannelImpl>(impl_, std::move(*made)));
}

Result<CmId> ConnectionManager::create_id(const CmChannel& channel, PortSpace space, QpType type) {
  auto number = impl_->calls().create_id(channel.impl_->number(), space, type);
  if (!number) return std::unexpected(number.error());
  return CmId(std::make_shared<client::CmIdImpl>(channel.impl_, *number));
}

Result<CmId> ConnectionManager::adopt(const CmEvent& request) {
  auto made = impl_->take_request(request.id);
  auto channel = made ? made->channel.lock() : nullptr;
  if (channel == nullptr) {
    return fail(EINVAL, "communication id " + std::to_string(request.id) +
                            " is not that of a new connect_request; adopt each request once, while its channel exists");
  }
  return CmId(std::make_shared<client::CmIdImpl>(std::move(channel), request.id, std::move(made->known)));
}

int CmChannel::fd() const { return impl_->fd(); }
std::optional<CmEvent> CmChannel::take() { return impl_->take(); }
std::optional<CmEvent> CmChannel::wait(std::chrono::nanoseconds timeout) { return impl_->wait(timeout); }

// --- Ids -------------------------------------------------------------------------------------------------------

uint32_t CmId::number() const { return impl_->number(); }

Result<CmIdInfo> CmId::info() const {
  if (auto known = impl_->known(); known.info) return std::move(*known.info);
  return impl_->manager().calls().info(number());
}

Result<void> CmId::bind(const CmAddress& local) {
  impl_->has_known_port();
  return impl_->change([&](CmCalls& calls, uint32_t id) { return calls.bind(id, local); });
}

Result<void> CmId::resolve_addr(const std::optional<CmAddress>& local, const CmAddress& remote,
                                std::chrono::milliseconds timeout) {
  if (local && local->port != 0) impl_->has_known_port();
  return impl_->change([&](CmCalls& calls, uint32_t id) { return calls.resolve_addr(id, local, remote, timeout); });
}

Result<void> CmId::resolve_route(std::chrono::milliseconds) { return impl_->resolve_route(); }
Result<void> CmId::establish() {
  return impl_->send([](CmCalls& calls, uint32_t id) { return calls.establish(id); });
}
Result<void> CmId::disconnect() {
  return impl_->send([](CmCalls& calls, uint32_t id) { return calls.disconnect(id); });
}
Result<void> CmId::notify_established() {
  return impl_->send([](CmCalls& calls, uint32_t id) { return calls.notify_established(id); });
}

Result<void> CmId::listen(int backlog) {
  impl_->has_known_port();
  return impl_->change([=](CmCalls& calls, uint32_t id) { return calls.listen(id, backlog); });
}

Result<void> CmId::connect(const CmParam& param) {
  return impl_->change([&](CmCalls& calls, uint32_t id) { return calls.connect(id, param); });
}

Result<void> CmId::accept(const CmParam& param) {
  return impl_->change([&](CmCalls& calls, uint32_t id) { return calls.accept(id, param); });
}

Result<void> CmId::connect(const CmParam& param, QueuePair& qp) { return impl_->connect(param, qp.impl_); }
Result<void> CmId::accept(const CmParam& param, QueuePair& qp) { return impl_->accept(param, *qp.impl_); }
Result<void> CmId::disconnect(QueuePair& qp) { return impl_->disconnect(*qp.impl_); }

Result<void> CmId::reject(std::span<const std::byte> private_data, uint8_t reason) {
  return impl_->send([&](CmCalls& calls, uint32_t id) { return calls.reject(id, private_data, reason); });
}

Result<std::pair<QpAttr, QpAttrMask>> CmId::qp_attr(QpState state) const {
  for (const message::ModifyStep& step : impl_->known().steps) {
    if (step.attr.state == state) return std::pair(step.attr, step.mask);
  }
  return impl_->manager().calls().qp_attr(number(), state);
}

namespace {

Result<void> set_option(client::CmIdImpl& impl, CmOption option, uint8_t value) {
  return impl.change([=](CmCalls& calls, uint32_t id) { return calls.set_option(id, option, value); });
}

}  // namespace

Result<void> CmId::set_type_of_service(uint8_t tos) { return set_option(*impl_, CmOption::type_of_service, tos); }
Result<void> CmId::set_reuse_address(bool on) { return set_option(*impl_, CmOption::reuse_address, on ? 1 : 0); }
Result<void> CmId::set_af_only(bool on) { return set_option(*impl_, CmOption::af_only, on ? 1 : 0); }
Result<void> CmId::set_ack_timeout(uint8_t code) { return set_option(*impl_, CmOption::ack_timeout, code); }

Result<void> CmId::join(const CmAddress& group, uint64_t token) {
  return impl_->send([&](CmCalls& calls, uint32_t id) { return calls.join(id, group, token); });
}

Result<void> CmId::leave(const CmAddress& group) {
  return impl_->send([&](CmCalls& calls, uint32_t id) { return calls.leave(id, group); });
}

Result<void> CmId::raise_event(CmEventType type, int status, uint64_t argument) {
  return impl_->send([=](CmCalls& calls, uint32_t id) { return calls.raise_event(id, type, status, argument); });
}

Result<void> CmId::migrate(const CmChannel& channel) { return impl_->migrate(channel.impl_); }

}  // namespace uroce
