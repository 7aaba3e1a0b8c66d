// The connection manager of the daemon: each call a message, each event a byte in a channel's pipe and a message.
#include <uroce/cm.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>

#include <poll.h>
#include <unistd.h>

#include "client/daemon_link.h"
#include "message/cm_messages.h"

namespace uroce {
namespace client {

using message::Fd;
using message::Op;

class CmImpl {
 public:
  explicit CmImpl(std::unique_ptr<DaemonLink> link) : link_(std::move(link)) {}

  template <class Reply, class Request>
  Result<Reply> call(Op op, const Request& request, std::vector<Fd>* fds = nullptr) {
    return link_->call<Reply>(op, request, {}, fds);
  }
  template <class Request>
  Result<void> tell(Op op, const Request& request) {
    auto done = call<message::Empty>(op, request);
    if (!done) return std::unexpected(done.error());
    return {};
  }
  bool mine() const { return link_->mine(); }
  /// Until it is adopted, a new id is its channel's.
  void add_request(uint32_t id, const std::shared_ptr<CmChannelImpl>& channel) {
    const std::scoped_lock lock(mutex_);
    requests_[id] = channel;
  }
  std::shared_ptr<CmChannelImpl> take_request(uint32_t id) {
    const std::scoped_lock lock(mutex_);
    const auto found = requests_.extract(id);
    return found ? found.mapped().lock() : nullptr;
  }

 private:
  std::unique_ptr<DaemonLink> link_;
  std::mutex mutex_;  // guards what follows
  std::map<uint32_t, std::weak_ptr<CmChannelImpl>> requests_;
};

class CmChannelImpl : public std::enable_shared_from_this<CmChannelImpl> {
 public:
  CmChannelImpl(std::shared_ptr<CmImpl> manager, uint32_t number, Fd fd)
      : manager_(std::move(manager)), number_(number), fd_(std::move(fd)) {}
  ~CmChannelImpl() {
    if (manager_->mine()) (void)manager_->tell(Op::cm_destroy_channel, message::Handle{number_});
  }
  CmChannelImpl(const CmChannelImpl&) = delete;
  CmChannelImpl& operator=(const CmChannelImpl&) = delete;

  const std::shared_ptr<CmImpl>& manager() const { return manager_; }
  uint32_t number() const { return number_; }
  int fd() const { return fd_.get(); }
  void add(uint32_t id) {
    const std::scoped_lock lock(mutex_);
    ids_.insert(id);
  }
  void remove(uint32_t id) {
    const std::scoped_lock lock(mutex_);
    ids_.erase(id);
  }
  std::optional<CmEvent> take();
  std::optional<CmEvent> wait(std::chrono::nanoseconds timeout);

 private:
  enum class Token { none, there, ended };
  Token take_token();
  std::optional<CmEvent> tell_end();

  std::shared_ptr<CmImpl> manager_;
  const uint32_t number_;
  Fd fd_;
  std::mutex token_mutex_;
  std::mutex mutex_;         // guards what follows
  std::set<uint32_t> ids_;   // whose events come here
  std::set<uint32_t> told_;  // of the daemon's end
};

// The application may have made the descriptor block: it is read only when it has something, by one thread at a time.
CmChannelImpl::Token CmChannelImpl::take_token() {
  const std::scoped_lock lock(token_mutex_);
  pollfd waiting{.fd = fd_.get(), .events = POLLIN, .revents = 0};
  char token = 0;
  if (poll(&waiting, 1, 0) != 1) return Token::none;
  return read(fd_.get(), &token, 1) == 1 ? Token::there : Token::ended;
}

std::optional<CmEvent> CmChannelImpl::take() {
  for (;;) {
    const Token token = take_token();
    if (token == Token::none) return std::nullopt;
    if (token == Token::ended) return tell_end();
    auto reply = manager_->call<message::CmEventReply>(Op::cm_take_event, message::Handle{number_});
    if (!reply) return tell_end();
    // Its id may have been destroyed between the byte and the question.
    if (!reply->there) continue;
    if (reply->event.type == CmEventType::connect_request) manager_->add_request(reply->event.id, shared_from_this());
    return std::move(reply->event);
  }
}

std::optional<CmEvent> CmChannelImpl::tell_end() {
  const std::scoped_lock lock(mutex_);
  for (const uint32_t id : ids_) {
    if (told_.insert(id).second) return CmEvent{.type = CmEventType::device_removal, .id = id};
  }
  return std::nullopt;
}

std::optional<CmEvent> CmChannelImpl::wait(std::chrono::nanoseconds timeout) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::nanoseconds kForEver = std::chrono::hours(24 * 365);  // keeps the sum from overflowing
  const auto until = Clock::now() + std::clamp(timeout, std::chrono::nanoseconds(0), kForEver);
  for (;;) {
    if (auto event = take()) return event;
    const std::chrono::nanoseconds left = until - Clock::now();
    if (left.count() <= 0) return std::nullopt;
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
    const timespec limit{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
    pollfd waiting{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    const int ready = ppoll(&waiting, 1, &limit, nullptr);
    // A signal ends the wait, as it ends a read(2).
    if (ready < 0 && errno == EINTR) return std::nullopt;
    // After the daemon's end the descriptor is readable for ever, and nothing more comes: let time pass.
    if (ready == 1 && (waiting.revents & POLLIN) == 0) {
      if (auto event = take()) return event;
      ppoll(nullptr, 0, &limit, nullptr);
      return std::nullopt;
    }
  }
}

class CmIdImpl {
 public:
  CmIdImpl(std::shared_ptr<CmChannelImpl> channel, uint32_t number) : channel_(std::move(channel)), number_(number) {
    channel_->add(number_);
  }
  ~CmIdImpl() {
    channel_->remove(number_);
    if (manager()->mine()) (void)manager()->tell(Op::cm_destroy_id, handle());
  }
  CmIdImpl(const CmIdImpl&) = delete;
  CmIdImpl& operator=(const CmIdImpl&) = delete;

  uint32_t number() const { return number_; }
  message::Handle handle() const { return {number_}; }
  const std::shared_ptr<CmImpl>& manager() const { return manager_; }
  Result<void> tell(Op op) const { return manager()->tell(op, handle()); }
  Result<void> migrate(std::shared_ptr<CmChannelImpl> to) {
    auto moved = manager()->tell(Op::cm_migrate, message::CmMigrate{number_, to->number()});
    if (!moved) return moved;
    const std::scoped_lock lock(mutex_);
    channel_->remove(number_);
    to->add(number_);
    channel_ = std::move(to);
    return {};
  }

 private:
  std::shared_ptr<CmChannelImpl> channel_;
  std::shared_ptr<CmImpl> manager_ = channel_->manager();
  std::mutex mutex_;  // guards channel_
  const uint32_t number_;
};

}  // namespace client

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
  if (fds.size() != 1) return fail(EPROTO, "the uroce daemon: an event channel came without its descriptor");
  return CmChannel(std::make_shared<client::CmChannelImpl>(impl_, reply->channel, std::move(fds[0])));
}

Result<CmId> ConnectionManager::create_id(const CmChannel& channel, PortSpace space, QpType type) {
  const message::CmCreateId request{channel.impl_->number(), space, type};
  auto reply = impl_->call<message::Handle>(Op::cm_create_id, request);
  if (!reply) return std::unexpected(reply.error());
  return CmId(std::make_shared<client::CmIdImpl>(channel.impl_, reply->id));
}

Result<CmId> ConnectionManager::adopt(const CmEvent& request) {
  auto channel = impl_->take_request(request.id);
  if (channel == nullptr) {
    return fail(EINVAL, "communication id " + std::to_string(request.id) + " is no new one of a connect_request");
  }
  return CmId(std::make_shared<client::CmIdImpl>(std::move(channel), request.id));
}

int CmChannel::fd() const { return impl_->fd(); }
std::optional<CmEvent> CmChannel::take() { return impl_->take(); }
std::optional<CmEvent> CmChannel::wait(std::chrono::nanoseconds timeout) { return impl_->wait(timeout); }

// --- Ids -------------------------------------------------------------------------------------------------------

uint32_t CmId::number() const { return impl_->number(); }

Result<CmIdInfo> CmId::info() const {
  auto reply = impl_->manager()->call<message::CmInfoReply>(Op::cm_info, impl_->handle());
  if (!reply) return std::unexpected(reply.error());
  return std::move(reply->info);
}

Result<void> CmId::bind(const CmAddress& local) {
  return impl_->manager()->tell(Op::cm_bind, message::CmBind{number(), message::CmAddressBytes::from(local)});
}

Result<void> CmId::resolve_addr(const std::optional<CmAddress>& local, const CmAddress& remote,
                                std::chrono::milliseconds timeout) {
  const message::CmResolve request{
      .id = number(),
      .has_local = local.has_value(),
      .local = message::CmAddressBytes::from(local.value_or(CmAddress{})),
      .remote = message::CmAddressBytes::from(remote),
      .timeout_ms = static_cast<uint32_t>(std::clamp<int64_t>(timeout.count(), 0, UINT32_MAX))};
  return impl_->manager()->tell(Op::cm_resolve_addr, request);
}

Result<void> CmId::resolve_route(std::chrono::milliseconds) { return impl_->tell(Op::cm_resolve_route); }
Result<void> CmId::establish() { return impl_->tell(Op::cm_establish); }
Result<void> CmId::disconnect() { return impl_->tell(Op::cm_disconnect); }
Result<void> CmId::notify_established() { return impl_->tell(Op::cm_notify_established); }

Result<void> CmId::listen(int backlog) {
  return impl_->manager()->tell(Op::cm_listen, message::CmListen{number(), backlog});
}

Result<void> CmId::connect(const CmParam& param) {
  return impl_->manager()->tell(Op::cm_connect, message::CmTerms{number(), message::CmParamBytes::from(param)});
}

Result<void> CmId::accept(const CmParam& param) {
  return impl_->manager()->tell(Op::cm_accept, message::CmTerms{number(), message::CmParamBytes::from(param)});
}

Result<void> CmId::reject(std::span<const std::byte> private_data, uint8_t reason) {
  const message::CmReject request{number(), reason, {private_data.begin(), private_data.end()}};
  return impl_->manager()->tell(Op::cm_reject, request);
}

Result<std::pair<QpAttr, QpAttrMask>> CmId::qp_attr(QpState state) const {
  auto reply = impl_->manager()->call<message::CmQpAttrReply>(Op::cm_qp_attr, message::CmQpAttr{number(), state});
  if (!reply) return std::unexpected(reply.error());
  return std::pair(reply->attr.value(), reply->mask);
}

namespace {

/// Numbers of cm::ManagerUser::Option.
enum Option : uint8_t { kTypeOfService = 0, kReuseAddress = 1, kAfOnly = 2, kAckTimeout = 3 };

Result<void> set_option(const client::CmIdImpl& id, Option option, uint8_t value) {
  return id.manager()->tell(Op::cm_set_option, message::CmSetOption{id.number(), option, value});
}

}  // namespace

Result<void> CmId::set_type_of_service(uint8_t tos) { return set_option(*impl_, kTypeOfService, tos); }
Result<void> CmId::set_reuse_address(bool on) { return set_option(*impl_, kReuseAddress, on ? 1 : 0); }
Result<void> CmId::set_af_only(bool on) { return set_option(*impl_, kAfOnly, on ? 1 : 0); }
Result<void> CmId::set_ack_timeout(uint8_t code) { return set_option(*impl_, kAckTimeout, code); }

Result<void> CmId::join(const CmAddress& group, uint64_t token) {
  const message::CmGroup request{number(), message::CmAddressBytes::from(group), token};
  return impl_->manager()->tell(Op::cm_join, request);
}

Result<void> CmId::leave(const CmAddress& group) {
  return impl_->manager()->tell(Op::cm_leave,
                                message::CmGroup{.id = number(), .group = message::CmAddressBytes::from(group)});
}

Result<void> CmId::migrate(const CmChannel& channel) { return impl_->migrate(channel.impl_); }

}  // namespace uroce
