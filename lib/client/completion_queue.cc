#include <cerrno>
#include <ctime>

#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <uroce/verbs/completion_queue.h>

#include "base/no_cancel.h"
#include "client/completion_queue.h"
#include "client/context_interface.h"

namespace uroce {

namespace client {
// --- Channel ---------------------------------------------------------------------------------------------------

// The application may have made the descriptor blocking. Pipes know RWF_NOWAIT from Linux 6.4 on; before it, poll
// first, and let one thread at a time read.
int ChannelImpl::take_token() {
  const NoCancel guard;
  uint8_t token = 0;
  const iovec bytes{.iov_base = &token, .iov_len = 1};
  const ssize_t got = preadv2(fd_, &bytes, 1, -1, RWF_NOWAIT);
  if (got >= 0) return got == 1 ? token : kEnded;
  if (errno == EAGAIN) return kNone;
  pollfd waiting{.fd = fd_, .events = POLLIN, .revents = 0};
  if (poll(&waiting, 1, 0) != 1) return kNone;
  if ((waiting.revents & POLLIN) == 0) return kEnded;
  return read(fd_, &token, 1) == 1 ? token : kNone;
}

std::optional<uint32_t> ChannelImpl::take_last() {
  for (CqImpl* cq : queues_) {
    if (cq->take_last_event()) return cq->id();
  }
  return std::nullopt;
}

template <class Match>
std::optional<uint32_t> ChannelImpl::take_in_turn(Match match) {
  // A linear search is cheap enough: a channel has few queues, and events are rarer than completions.
  for (std::size_t i = 0; i < queues_.size(); ++i) {
    CqImpl& cq = *queues_[(next_ + i) % queues_.size()];
    if (!match(cq) || !cq.take_event()) continue;
    next_ = (next_ + i + 1) % queues_.size();
    return cq.id();
  }
  return std::nullopt;
}

std::optional<uint32_t> ChannelImpl::take() {
  const std::scoped_lock lock(mutex_);
  // The engine raises the queue's count before it writes the token, so a token taken here guarantees a raised count.
  const int token = take_token();
  if (token == kEnded) return take_last();
  if (token == kNone) return std::nullopt;
  if (const auto id = take_in_turn([token](const CqImpl& cq) { return queues::event_token(cq.id()) == token; }))
    return id;
  // An older engine wrote the token, or remove() has taken another queue's.
  return take_in_turn([](const CqImpl&) { return true; });
}

void ChannelImpl::add(CqImpl& cq) {
  const std::scoped_lock lock(mutex_);
  queues_.push_back(&cq);
}

void ChannelImpl::remove(CqImpl& cq) {
  const std::scoped_lock lock(mutex_);
  std::erase(queues_, &cq);
  while (cq.take_event() && take_token() > kNone) {
  }
}

// --- Queue -----------------------------------------------------------------------------------------------------

CqImpl::CqImpl(const ContextImpl& context, CqParts parts)
    : owner(&context), poller_(parts.place, parts.rings), parts_(std::move(parts)) {
  if (parts_.channel != nullptr) parts_.channel->add(*this);
}

CqImpl::~CqImpl() {
  if (parts_.channel != nullptr) parts_.channel->remove(*this);
}

// A program that only polls makes no system call that would tell it that the daemon is gone. So an empty poll looks at
// the socket now and then; the coarse clock costs no system call and no reading of a timer.
std::size_t CqImpl::poll_idle(std::span<Completion> out) {
  constexpr std::chrono::milliseconds kBetweenLooks{10};
  timespec read{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &read);
  const std::chrono::nanoseconds now = std::chrono::seconds(read.tv_sec) + std::chrono::nanoseconds(read.tv_nsec);
  if (now < next_look_) return 0;
  if (!parts_.daemon->lost()) {
    next_look_ = now + kBetweenLooks;
    return 0;
  }
  // The engines may have written until the moment they died.
  const std::size_t taken = poller_.poll(out);
  return taken != 0 ? taken : flush_list_->take(out);
}

bool CqImpl::take_event() {
  if (parts_.place.header->fired.load(std::memory_order_acquire) == taken_) return false;
  ++taken_;
  awaits_.store(false, std::memory_order_relaxed);
  return true;
}

// An engine disarms the queue, counts the event and then writes the token. It may have died at any of these steps.
bool CqImpl::take_last_event() {
  if (take_event()) return true;
  const bool armed = queues::disarm(*parts_.place.header);
  return awaits_.exchange(false, std::memory_order_relaxed) || armed;
}

Result<void> CqImpl::arm(bool solicited_only) {
  if (parts_.channel == nullptr) {
    return fail(EINVAL, "cannot arm a completion queue without a completion channel; pass a channel to create_cq()");
  }
  if (parts_.daemon != nullptr && parts_.daemon->known_lost())
    return fail(EIO, "cannot arm a completion queue: the uroce daemon is gone; open the device again");
  awaits_.store(true, std::memory_order_relaxed);
  queues::arm(*parts_.place.header, solicited_only ? queues::Arm::solicited : queues::Arm::any);
  return {};
}

bool CqImpl::disarm() {
  if (!queues::disarm(*parts_.place.header)) return false;
  awaits_.store(false, std::memory_order_relaxed);
  return true;
}

Result<void> CqImpl::resize(uint32_t entries) {
  auto place = parts_.resize(entries);
  if (!place) return std::unexpected(place.error());
  parts_.place = *place;
  poller_ = queues::CqPoller(parts_.place, parts_.rings);
  return {};
}

}  // namespace client

int CompletionChannel::fd() const { return impl_->fd(); }

std::optional<uint32_t> CompletionChannel::wait(std::chrono::nanoseconds timeout) {
  return client::wait_for(*impl_->context(), impl_->fd(), timeout, [this] { return impl_->take(); });
}

uint32_t CompletionQueue::id() const { return impl_->id(); }
uint32_t CompletionQueue::entries() const { return impl_->entries(); }
std::size_t CompletionQueue::poll(std::span<Completion> out) { return impl_->poll(out); }
Result<void> CompletionQueue::arm(bool solicited_only) { return impl_->arm(solicited_only); }
bool CompletionQueue::disarm() { return impl_->disarm(); }

Result<void> CompletionQueue::moderate(uint16_t count, uint16_t period_us) { return impl_->moderate(count, period_us); }
Result<void> CompletionQueue::resize(uint32_t entries) { return impl_->resize(entries); }

}  // namespace uroce
