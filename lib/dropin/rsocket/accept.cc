// A listening stream. Requests are accepted as they arrive; established connections wait for raccept().
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>

#include "dropin/common/report.h"
#include "dropin/rsocket/stream.h"
#include "dropin/rsocket/watcher.h"

namespace uroce::dropin::rsocket {

namespace {

/// Bound on connections that wait for raccept(). The daemon's backlog bounds requests, which do not wait here.
constexpr std::size_t kWaitingMax = 4096;

}  // namespace

int Stream::listen(int backlog) {
  const std::lock_guard lock(cm_mutex_);
  if (phase_ == Phase::listening) return 0;
  if (phase_ != Phase::idle && phase_ != Phase::bound) return minus_one(EINVAL);
  if (rdma_listen(id_, backlog) != 0) return -1;
  accept_fd_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK | EFD_SEMAPHORE);
  if (accept_fd_ < 0) return -1;
  phase_ = Phase::listening;
  return watch() ? 0 : -1;
}

int Stream::accept(sockaddr* address, socklen_t* length) {
  std::unique_lock lock(cm_mutex_);
  if (phase_ != Phase::listening) return minus_one(EINVAL);
  if (accepted_.empty() && non_blocking(0)) return minus_one(EAGAIN);
  changed_.wait(lock, [this] { return !accepted_.empty() || phase_ != Phase::listening; });
  if (accepted_.empty()) return minus_one(EINVAL);  // closed by another thread
  const auto taken = std::move(accepted_.front());
  accepted_.pop_front();
  eventfd_t one = 0;
  eventfd_read(accept_fd_, &one);
  lock.unlock();
  if (!taken->take_descriptor()) {
    const int reason = errno;
    taken->close();
    return minus_one(reason);
  }
  if (address != nullptr) taken->peer_name(address, length);
  table::add(taken);
  return taken->fd();
}

void Stream::on_request(const rdma_cm_event& event) {
  if (event.event != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  auto child = std::make_shared<Stream>(family());
  child->sizes_ = sizes_;
  child->id_ = event.id;
  const bool room = accepted_.size() + accepting_.size() < kWaitingMax;
  if (!room || !child->open_channel() || rdma_migrate_id(child->id_, child->channel_) != 0) {
    rdma_reject(event.id, nullptr, 0);
    return;
  }
  child->id_->context = child.get();
  child->listener_ = weak_from_this();
  child->phase_ = Phase::connecting;
  if (child->answer_request(event.param.conn) != 0 || !child->watch()) {
    rdma_reject(event.id, nullptr, 0);
    return;
  }
  accepting_.push_back(std::move(child));
}

int Stream::answer_request(const rdma_conn_param& request) {
  const auto* data = static_cast<const std::byte*>(request.private_data);
  const auto peer = wire::decode({data, data != nullptr ? request.private_data_len : std::size_t{0}});
  if (!peer) return minus_one(ENOTSUP);
  if (make_endpoint() != 0) return -1;
  take_greeting(*peer);
  const auto hello = encode(greeting());
  rdma_conn_param param = request;
  param.private_data = hello.data();
  param.private_data_len = hello.size();
  return rdma_accept(id_, &param);
}

/// The connection is established: raccept() can return it.
void Stream::on_accepted() {
  const auto listener = listener_.lock();
  if (listener == nullptr) return;
  readable_ = writable_ = true;
  phase_ = Phase::connected;
  {
    const std::lock_guard lock(listener->cm_mutex_);
    const auto self = std::ranges::find(listener->accepting_, this, &std::shared_ptr<Stream>::get);
    if (self == listener->accepting_.end()) return;
    listener->accepted_.push_back(std::move(*self));
    listener->accepting_.erase(self);
    eventfd_write(listener->accept_fd_, 1);
    listener->changed_.notify_one();
  }
  listener->waiters.wake();
}

/// Drops a child whose connection failed. The watcher's thread destroys it after its handler has returned.
void Stream::drop_accepting(const Stream* child) {
  const std::lock_guard lock(cm_mutex_);
  const auto found = std::ranges::find(accepting_, child, &std::shared_ptr<Stream>::get);
  if (found == accepting_.end()) return;
  Watcher::connections().remove((*found)->channel_->fd);
  (*found)->watched_ = false;
  accepting_.erase(found);
}

}  // namespace uroce::dropin::rsocket
