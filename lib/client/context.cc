#include "client/impl.h"
#include "client/in_process.h"

namespace uroce {

namespace client {

Result<std::shared_ptr<ContextImpl>> make_in_process_context(const std::shared_ptr<control::Device>& device) {
  auto session = device->open();
  if (!session) return std::unexpected(session.error());
  return std::make_shared<ContextImpl>(std::move(*session));
}

}  // namespace client

const DeviceInfo& Context::info() const { return impl_->info; }

Result<ProtectionDomain> Context::create_pd() {
  auto pd = impl_->session->create_pd();
  if (!pd) return std::unexpected(pd.error());
  return ProtectionDomain(std::make_shared<client::PdImpl>(std::move(*pd)));
}

Result<CompletionChannel> Context::create_channel() {
  auto channel = impl_->session->create_channel();
  if (!channel) return std::unexpected(channel.error());
  return CompletionChannel(std::make_shared<client::ChannelImpl>(std::move(*channel)));
}

Result<CompletionQueue> Context::create_cq(uint32_t entries, const CompletionChannel* channel) {
  auto cq = impl_->session->create_cq(entries, channel != nullptr ? channel->impl_->channel : nullptr);
  if (!cq) return std::unexpected(cq.error());
  return CompletionQueue(std::make_shared<client::CqImpl>(std::move(*cq)));
}

Result<SharedReceiveQueue> Context::create_srq(const ProtectionDomain& pd, uint32_t max_wr, uint32_t max_sge) {
  auto srq = impl_->session->create_srq(pd.impl_->pd, max_wr, max_sge);
  if (!srq) return std::unexpected(srq.error());
  return SharedReceiveQueue(std::make_shared<client::SrqImpl>(std::move(*srq)));
}

Result<QueuePair> Context::create_qp(const ProtectionDomain& pd, const CompletionQueue& send_cq,
                                     const CompletionQueue& recv_cq, const QpInit& init,
                                     const SharedReceiveQueue* srq) {
  auto qp = impl_->session->create_qp(pd.impl_->pd, send_cq.impl_->cq, recv_cq.impl_->cq, init,
                                      srq != nullptr ? srq->impl_->srq : nullptr);
  if (!qp) return std::unexpected(qp.error());
  return QueuePair(std::make_shared<client::QpImpl>(std::move(*qp)));
}

int Context::async_fd() const { return impl_->session->events().fd(); }

std::optional<AsyncEvent> Context::next_async_event(std::chrono::nanoseconds timeout) {
  auto& events = impl_->session->events();
  return client::wait_for(*impl_->session->device(), events.fd(), timeout, [&events] { return events.pop(); });
}

std::vector<std::pair<std::string, uint64_t>> Context::counters() const { return impl_->session->device()->counters(); }

}  // namespace uroce
