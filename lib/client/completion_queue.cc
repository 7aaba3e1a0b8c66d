#include <cerrno>

#include "client/impl.h"

namespace uroce {

namespace client {
namespace {

std::vector<queues::RingConsumer> consumers(const control::Cq& cq) {
  std::vector<queues::RingConsumer> rings;
  rings.reserve(cq.rings());
  for (uint32_t engine = 0; engine < cq.rings(); ++engine) rings.emplace_back(cq.ring(engine));
  return rings;
}

}  // namespace

CqImpl::CqImpl(std::shared_ptr<control::Cq> object) : poller(consumers(*object)), cq(std::move(object)) {}

Result<void> CqImpl::arm(bool solicited_only) {
  if (cq->channel() == nullptr) {
    return fail(EINVAL, "a completion queue without a channel cannot be armed; give create_cq() a channel");
  }
  const auto wanted = static_cast<uint32_t>(solicited_only ? queues::Arm::solicited : queues::Arm::any);
  // A request for any completion stands until it fires: one for solicited ones only does not weaken it (C11-32).
  auto& arm = cq->header()->arm;
  uint32_t current = arm.load(std::memory_order_relaxed);
  while (current < wanted && !arm.compare_exchange_weak(current, wanted, std::memory_order_seq_cst)) {
  }
  // Before the caller's next poll(): of arming here and completing there, one sees the other.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  return {};
}

SrqImpl::SrqImpl(std::shared_ptr<control::Srq> object)
    : queue(object->ring(), object->max_sge()), srq(std::move(object)) {}

}  // namespace client

int CompletionChannel::fd() const { return impl_->channel->fd(); }

std::optional<uint32_t> CompletionChannel::wait(std::chrono::nanoseconds timeout) {
  control::Channel& channel = *impl_->channel;
  return client::wait_for(*channel.session()->device(), channel.fd(), timeout, [&channel] { return channel.take(); });
}

uint32_t CompletionQueue::id() const { return impl_->cq->id(); }
std::size_t CompletionQueue::poll(std::span<Completion> out) { return impl_->poller.poll(out); }
Result<void> CompletionQueue::arm(bool solicited_only) { return impl_->arm(solicited_only); }

uint32_t SharedReceiveQueue::id() const { return impl_->srq->id(); }
int SharedReceiveQueue::post_recv(const RecvRequest& request) { return impl_->queue.post(request); }

Result<void> SharedReceiveQueue::set_limit(uint32_t limit) {
  if (limit > impl_->srq->max_wr()) {
    return fail(EINVAL, "the limit of a shared receive queue is at most its max_wr, " +
                            std::to_string(impl_->srq->max_wr()) + "; got " + std::to_string(limit));
  }
  impl_->srq->header()->limit.store(limit, std::memory_order_release);
  return {};
}

}  // namespace uroce
