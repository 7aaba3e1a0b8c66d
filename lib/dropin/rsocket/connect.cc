// Connecting a stream. Each event of its id begins the next step, on the watcher's thread.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "dropin/common/foreign_enum.h"
#include "dropin/common/report.h"
#include "dropin/rdmacm/address.h"
#include "dropin/rsocket/stream.h"
#include "dropin/rsocket/watcher.h"

namespace uroce::dropin::rsocket {

namespace {

/// Timeout for resolving an address or a route; each retry doubles it.
constexpr int kFirstTimeoutMs = 1000;
constexpr int kTries = 6;
constexpr uint8_t kRetries = 7;

}  // namespace

std::shared_ptr<Stream> Stream::make(int family) {
  auto made = std::make_shared<Stream>(family);
  if (!made->open_channel() || rdma_create_id(made->channel_, &made->id_, made.get(), RDMA_PS_TCP) != 0) return nullptr;
  return made->take_descriptor() ? made : nullptr;
}

/// Duplicates the channel's descriptor when the application gets the socket. librspreload expects the socket's number
/// to be higher than the descriptors that it created before; the channel's own number may be lower.
bool Stream::take_descriptor() {
  number_ = fcntl(channel_->fd, F_DUPFD_CLOEXEC, 0);
  return number_ >= 0;
}

Stream::~Stream() {
  const int reason = errno;
  release();
  errno = reason;
}

void Stream::release() {
  connection_.release();
  if (id_ != nullptr) rdma_destroy_id(std::exchange(id_, nullptr));
  if (channel_ != nullptr) rdma_destroy_event_channel(std::exchange(channel_, nullptr));
  if (number_ >= 0) ::close(std::exchange(number_, -1));
  arrivals_.reset();
  keepalive_.reset();
}

bool Stream::open_channel() {
  channel_ = rdma_create_event_channel();
  return channel_ != nullptr && fcntl(channel_->fd, F_SETFL, O_NONBLOCK) == 0;
}

bool Stream::watch() {
  watched_ = Watcher::connections().add(channel_->fd, [weak = weak_from_this()] {
    if (const auto stream = weak.lock()) stream->on_cm_readable();
  });
  return watched_;
}

int Stream::bind(const sockaddr* address, socklen_t /*length*/) {
  if (rdma_bind_addr(id_, const_cast<sockaddr*>(address)) != 0) return -1;
  state_.set(Phase::bound);
  return 0;
}

int Stream::connect(const sockaddr* address, socklen_t length) {
  {
    const std::lock_guard lock(cm_mutex_);
    if (state_.connected()) return 0;
    if (state_.phase() == Phase::connecting) return minus_one(EALREADY);
    if (state_.phase() != Phase::idle && state_.phase() != Phase::bound) return minus_one(EINVAL);
    const socklen_t needed = rdmacm::address_length(address);
    if (needed == 0 || length < needed) return minus_one(needed == 0 ? EAFNOSUPPORT : EINVAL);
    std::memcpy(&id_->route.addr.dst_storage, address, needed);
    tries_ = 0;
    if (!watch() || ask_for_address() != 0) return -1;
    state_.set(Phase::connecting);
  }
  if (non_blocking(0)) return minus_one(EINPROGRESS);
  return wait_connected(false);
}

int Stream::wait_connected(bool at_once) {
  std::unique_lock lock(cm_mutex_);
  if (at_once && state_.phase() == Phase::connecting) return minus_one(EINPROGRESS);
  changed_.wait(lock, [this] { return state_.phase() != Phase::connecting; });
  if (state_.phase() != Phase::refused) return 0;
  const int reason = state_.take_error();
  return minus_one(reason != 0 ? reason : ENOTCONN);
}

int Stream::ask_for_address() {
  return rdma_resolve_addr(id_, nullptr, &id_->route.addr.dst_addr, kFirstTimeoutMs << tries_++);
}

int Stream::ask_for_route() { return rdma_resolve_route(id_, kFirstTimeoutMs << tries_++); }

int Stream::ask_for_connection() {
  if (connection_.make(id_, sizes_) != 0) return -1;
  const auto hello = encode(connection_.greeting());
  rdma_conn_param param{};
  param.private_data = hello.data();
  param.private_data_len = hello.size();
  param.flow_control = 1;
  param.retry_count = kRetries;
  param.rnr_retry_count = kRetries;
  return rdma_connect(id_, &param);
}

void Stream::on_cm_readable() {
  const std::lock_guard lock(cm_mutex_);
  rdma_cm_event* event = nullptr;
  while (channel_ != nullptr && rdma_get_cm_event(channel_, &event) == 0) {
    on_cm_event(*event);
    rdma_ack_cm_event(event);
  }
  if (errno != EAGAIN && watched_) {
    watched_ = false;
    Watcher::connections().remove(channel_->fd);
  }
}

void Stream::on_cm_event(const rdma_cm_event& event) {
  switch (state_.phase()) {
    case Phase::listening: return on_request(event);
    case Phase::connecting: return on_connecting(event);
    default: break;
  }
  const uint32_t type = number_of(event.event);
  if (type == RDMA_CM_EVENT_DISCONNECTED || type == RDMA_CM_EVENT_DEVICE_REMOVAL) connection_.on_disconnected();
}

void Stream::on_connecting(const rdma_cm_event& event) {
  int result = 0;
  switch (number_of(event.event)) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      tries_ = 0;
      result = ask_for_route();
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      tries_ = 0;
      result = ask_for_connection();
      break;
    case RDMA_CM_EVENT_ADDR_ERROR: return on_failure(event, &Stream::ask_for_address);
    case RDMA_CM_EVENT_ROUTE_ERROR: return on_failure(event, &Stream::ask_for_route);
    case RDMA_CM_EVENT_ESTABLISHED:
      if (!listener_.expired()) return on_accepted();
      return on_answer(event.param.conn);
    case RDMA_CM_EVENT_REJECTED: return fail_connecting(ECONNREFUSED);
    case RDMA_CM_EVENT_UNREACHABLE:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_DISCONNECTED:
    case RDMA_CM_EVENT_DEVICE_REMOVAL: return on_failure(event, nullptr);
    default: return;
  }
  if (result != 0) fail_connecting(errno);
}

/// Retries after a timeout, if attempts are left; fails otherwise.
void Stream::on_failure(const rdma_cm_event& event, int (Stream::*again)()) {
  const int reason = event.status != 0 ? std::abs(event.status) : ECONNRESET;
  if (again != nullptr && reason == ETIMEDOUT && tries_ <= kTries && (this->*again)() == 0) return;
  fail_connecting(reason);
}

void Stream::on_answer(const rdma_conn_param& answer) {
  const auto* data = static_cast<const std::byte*>(answer.private_data);
  const auto peer = wire::decode({data, data != nullptr ? answer.private_data_len : std::size_t{0}});
  if (!peer) return fail_connecting(ENOTSUP);
  connection_.take_greeting(*peer);
  state_.establish();
  announce();
}

void Stream::fail_connecting(int reason) {
  if (const auto listener = listener_.lock()) return listener->drop_accepting(this);
  state_.set_error(reason);
  change(Phase::refused);
}

void Stream::change(Phase into) {
  state_.set(into);
  announce();
}

void Stream::announce() {
  changed_.notify_all();
  waiters.wake();
}

int Stream::peer_name(sockaddr* address, socklen_t* length) {
  if (id_->route.addr.dst_addr.sa_family == AF_UNSPEC) return minus_one(ENOTCONN);
  give_address(id_->route.addr.dst_storage, address, length);
  return 0;
}

int Stream::own_name(sockaddr* address, socklen_t* length) {
  sockaddr_storage own = id_->route.addr.src_storage;
  if (own.ss_family == AF_UNSPEC) own.ss_family = static_cast<sa_family_t>(family());
  give_address(own, address, length);
  return 0;
}

void Stream::close() {
  if (state_.connected()) shutdown(SHUT_RDWR);
  set_keepalive(false);
  if (watched_) Watcher::connections().remove(channel_->fd);
  std::deque<Arrivals::Connection> waiting;
  {
    const std::lock_guard lock(cm_mutex_);
    waiting = arrivals_.take_all();
    if (state_.phase() < Phase::connected) change(Phase::broken);
  }
  for (const auto& each : waiting) each->close();
  release();
}

}  // namespace uroce::dropin::rsocket
