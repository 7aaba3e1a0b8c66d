// A listening stream. Requests are accepted as they arrive; established connections wait for raccept().
#include <cerrno>

#include "dropin/common/foreign_enum.h"
#include "dropin/common/report.h"
#include "dropin/rsocket/stream.h"
#include "dropin/rsocket/watcher.h"

namespace uroce::dropin::rsocket {

int Stream::listen(int backlog) {
  const std::lock_guard lock(cm_mutex_);
  if (state_.phase() == Phase::listening) return 0;
  if (state_.phase() != Phase::idle && state_.phase() != Phase::bound) return minus_one(EINVAL);
  if (rdma_listen(id_, backlog) != 0) return -1;
  if (arrivals_.open() != 0) return -1;
  state_.set(Phase::listening);
  return watch() ? 0 : -1;
}

int Stream::accept(sockaddr* address, socklen_t* length) {
  std::unique_lock lock(cm_mutex_);
  if (state_.phase() != Phase::listening) return minus_one(EINVAL);
  if (arrivals_.none() && non_blocking(0)) return minus_one(EAGAIN);
  changed_.wait(lock, [this] { return !arrivals_.none() || state_.phase() != Phase::listening; });
  if (arrivals_.none()) return minus_one(EINVAL);  // closed by another thread
  const auto taken = arrivals_.take();
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
  if (number_of(event.event) != RDMA_CM_EVENT_CONNECT_REQUEST) return;
  auto child = std::make_shared<Stream>(family());
  child->sizes_ = sizes_;
  child->id_ = event.id;
  if (arrivals_.full() || !child->open_channel() || rdma_migrate_id(child->id_, child->channel_) != 0) {
    rdma_reject(event.id, nullptr, 0);
    return;
  }
  child->id_->context = child.get();
  child->listener_ = weak_from_this();
  child->state_.set(Phase::connecting);
  if (child->answer_request(event.param.conn) != 0 || !child->watch()) {
    rdma_reject(event.id, nullptr, 0);
    return;
  }
  arrivals_.add(std::move(child));
}

int Stream::answer_request(const rdma_conn_param& request) {
  const auto* data = static_cast<const std::byte*>(request.private_data);
  const auto peer = wire::decode({data, data != nullptr ? request.private_data_len : std::size_t{0}});
  if (!peer) return minus_one(ENOTSUP);
  if (connection_.make(id_, sizes_) != 0) return -1;
  connection_.take_greeting(*peer);
  const auto hello = encode(connection_.greeting());
  rdma_conn_param param = request;
  param.private_data = hello.data();
  param.private_data_len = hello.size();
  return rdma_accept(id_, &param);
}

/// The connection is established: raccept() can return it.
void Stream::on_accepted() {
  const auto listener = listener_.lock();
  if (listener == nullptr) return;
  state_.establish();
  {
    const std::lock_guard lock(listener->cm_mutex_);
    if (!listener->arrivals_.establish(this)) return;
    listener->changed_.notify_one();
  }
  listener->waiters.wake();
}

/// Drops a child whose connection failed. The watcher's thread destroys it after its handler has returned.
void Stream::drop_accepting(const Stream* child) {
  const std::lock_guard lock(cm_mutex_);
  const auto found = arrivals_.remove(child);
  if (found == nullptr) return;
  Watcher::connections().remove(found->channel_->fd);
  found->watched_ = false;
}

}  // namespace uroce::dropin::rsocket
