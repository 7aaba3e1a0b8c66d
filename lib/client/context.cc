#include <cerrno>

#include <uroce/verbs/context.h>

#include "client/completion_queue.h"
#include "client/context_interface.h"
#include "client/memory.h"
#include "client/protection_domain.h"
#include "client/queue_pair.h"
#include "client/shared_receive_queue.h"

namespace uroce {
namespace {

Result<void> check_owner(const client::ContextImpl* owner, const client::ContextImpl* here, const char* what) {
  if (owner == here) return {};
  return fail(EINVAL, std::string("the ") + what + " belongs to another context; create all objects from one Context");
}

}  // namespace

const DeviceInfo& Context::info() const { return impl_->info(); }
Result<std::vector<Gid>> Context::gids() const { return impl_->gids(); }
Result<bool> Context::link_up() const { return impl_->link_up(); }

Result<uint64_t> Context::clock_ns() const { return impl_->clock_ns(); }

Result<ProtectionDomain> Context::create_pd() {
  auto pd = impl_->create_pd();
  if (!pd) return std::unexpected(pd.error());
  return ProtectionDomain(std::move(*pd));
}

Result<CompletionChannel> Context::create_channel() {
  auto channel = impl_->create_channel();
  if (!channel) return std::unexpected(channel.error());
  return CompletionChannel(std::move(*channel));
}

Result<CompletionQueue> Context::create_cq(uint32_t entries, const CompletionChannel* channel, CqOptions options) {
  if (channel != nullptr) {
    if (auto ok = check_owner(channel->impl_->context().get(), impl_.get(), "completion channel"); !ok) {
      return std::unexpected(ok.error());
    }
  }
  auto cq = impl_->create_cq(entries, channel != nullptr ? channel->impl_ : nullptr, options);
  if (!cq) return std::unexpected(cq.error());
  return CompletionQueue(std::move(*cq));
}

Result<SharedReceiveQueue> Context::create_srq(const ProtectionDomain& pd, uint32_t max_wr, uint32_t max_sge) {
  if (auto ok = check_owner(pd.impl_->owner, impl_.get(), "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  auto srq = impl_->create_srq(*pd.impl_, max_wr, max_sge);
  if (!srq) return std::unexpected(srq.error());
  return SharedReceiveQueue(std::move(*srq));
}

Result<XrcDomain> Context::open_xrc_domain(const XrcDomainInit& init) {
  auto domain = impl_->open_xrc_domain(init);
  if (!domain) return std::unexpected(domain.error());
  return XrcDomain(std::move(*domain));
}

Result<SharedReceiveQueue> Context::create_xrc_srq(const ProtectionDomain& pd, const XrcDomain& domain,
                                                   const CompletionQueue& cq, uint32_t max_wr, uint32_t max_sge) {
  const std::pair<const client::ContextImpl*, const char*> owners[] = {
      {pd.impl_->owner, "protection domain"},
      {domain.impl_->owner, "XRC domain"},
      {cq.impl_->owner, "completion queue"},
  };
  for (const auto& [owner, what] : owners) {
    if (auto ok = check_owner(owner, impl_.get(), what); !ok) return std::unexpected(ok.error());
  }
  auto srq = impl_->create_xrc_srq(*pd.impl_, *domain.impl_, *cq.impl_, max_wr, max_sge);
  if (!srq) return std::unexpected(srq.error());
  return SharedReceiveQueue(std::move(*srq));
}

Result<QueuePair> Context::create_xrc_target(const XrcDomain& domain, const QpInit& init) {
  if (auto ok = check_owner(domain.impl_->owner, impl_.get(), "XRC domain"); !ok) return std::unexpected(ok.error());
  auto qp = impl_->create_xrc_target(*domain.impl_, init);
  if (!qp) return std::unexpected(qp.error());
  return QueuePair(std::move(*qp));
}

Result<QueuePair> Context::open_xrc_target(const XrcDomain& domain, uint32_t qpn) {
  if (auto ok = check_owner(domain.impl_->owner, impl_.get(), "XRC domain"); !ok) return std::unexpected(ok.error());
  auto qp = impl_->open_xrc_target(*domain.impl_, qpn);
  if (!qp) return std::unexpected(qp.error());
  return QueuePair(std::move(*qp));
}

Result<QueuePair> Context::create_qp(const ProtectionDomain& pd, const CompletionQueue& send_cq,
                                     const CompletionQueue& recv_cq, const QpInit& init, const SharedReceiveQueue* srq,
                                     std::span<const QueuePair::Step> steps) {
  const std::pair<const client::ContextImpl*, const char*> owners[] = {
      {pd.impl_->owner, "protection domain"},
      {send_cq.impl_->owner, "completion queue"},
      {recv_cq.impl_->owner, "completion queue"},
      {srq != nullptr ? srq->impl_->owner : impl_.get(), "shared receive queue"},
  };
  for (const auto& [owner, what] : owners) {
    if (auto ok = check_owner(owner, impl_.get(), what); !ok) return std::unexpected(ok.error());
  }
  auto qp = impl_->create_qp(*pd.impl_, *send_cq.impl_, *recv_cq.impl_, init,
                             srq != nullptr ? srq->impl_.get() : nullptr, steps);
  if (!qp) return std::unexpected(qp.error());
  return QueuePair(std::move(*qp));
}

Result<Flow> Context::create_flow(std::span<const QueuePair* const> table, const FlowRule& rule, const RxHash& hash) {
  if (table.empty() || table.size() > kMaxIndirection) {
    return fail(EINVAL, "cannot create receive rule: its table has " + std::to_string(table.size()) +
                            " queue pairs; it must have 1 to " + std::to_string(kMaxIndirection));
  }
  std::vector<const client::QpImpl*> qps;
  for (const QueuePair* qp : table) {
    if (auto ok = check_owner(qp->impl_->owner, impl_.get(), "queue pair"); !ok) return std::unexpected(ok.error());
    qps.push_back(qp->impl_.get());
  }
  auto made = table[0]->impl_->create_flow(qps, rule, hash);
  if (!made) return std::unexpected(made.error());
  return Flow(std::move(*made));
}

bool Context::lost() const { return impl_->lost(); }

int Context::async_fd() const { return impl_->async_fd(); }

std::optional<AsyncEvent> Context::next_async_event(std::chrono::nanoseconds timeout) {
  return client::wait_for(*impl_, impl_->async_fd(), timeout, [this] { return impl_->take_async_event(); });
}

std::vector<std::pair<std::string, uint64_t>> Context::counters() const { return impl_->counters(); }

}  // namespace uroce
