// The connection manager of the daemon: each call is a message.
#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "client/cm_impl.h"
#include "client/daemon_link.h"
#include "client/daemon_qp.h"
#include "cm/ib/mad.h"
#include "cm/rdma_header.h"
#include "message/pipe_wait.h"

namespace uroce {

using message::Op;

namespace client {
namespace {

/// Private data beside the header of rdma_cm (annex A11), in a REQ and a REP. The manager refuses more.
constexpr std::size_t kConnectData = cm::kReqPrivate - cm::RdmaHeader::kBytes, kAcceptData = cm::kRepPrivate;

class DaemonCm final : public CmImpl, private message::CmCalls {
 public:
  explicit DaemonCm(std::shared_ptr<DaemonLink> link) : link_(std::move(link)) {}

  CmCalls& calls() override { return *this; }
  Result<NewChannel> create_channel() override {
    std::vector<message::Fd> fds;
    auto reply = link_->call<message::CmChannelReply>(Op::cm_create_channel, message::Empty{}, {}, &fds);
    if (!reply) return std::unexpected(reply.error());
    if (fds.size() != 1) return fail(EPROTO, "the uroce daemon: the reply with an event channel has no descriptor");
    message::PipeWait::prepare(fds[0].get());
    return NewChannel{.number = reply->channel, .fd = std::move(fds[0])};
  }
  Result<void> connect(uint32_t id, const CmParam& param, const QpImpl& qp, bool welcome) override {
    return with(qp, Op::cm_connect, message::CmTerms{.id = id, .param = param},
                welcome && param.private_data.size() <= kConnectData);
  }
  Result<void> accept(uint32_t id, const CmParam& param, const QpImpl& qp, bool welcome) override {
    return with(qp, Op::cm_accept, message::CmTerms{.id = id, .param = param},
                welcome && param.private_data.size() <= kAcceptData);
  }
  Result<void> disconnect(uint32_t id, const QpImpl& qp, bool welcome) override {
    return with(qp, Op::cm_disconnect, message::CmDisconnect{.id = id}, welcome);
  }
  Result<void> post_resolve_route(uint32_t id) override { return post(Op::cm_resolve_route, id); }
  Result<void> post_destroy_id(uint32_t id) override { return post(Op::cm_destroy_id, id); }
  bool mine() const override { return link_->mine(); }
  message::Wake sleep(int fd, std::chrono::nanoseconds timeout) override { return pipe_wait_.sleep(fd, timeout); }

 private:
  template <class Link, class Request>
  static Result<void> ask(Link& link, Op op, const Request& request) {
    auto done = link.template call<message::Empty>(op, request);
    if (!done) return std::unexpected(done.error());
    return {};
  }
  template <class Request>
  Result<void> send(Op op, const Request& request) {
    return ask(*link_, op, request);
  }
  Result<void> post(Op op, uint32_t id) { return link_->post(op, message::Handle{id}); }
  /// A call of the queue pair's device, which waits for a reply unless it is welcome.
  template <class Request>
  Result<void> with(const QpImpl& qp, Op op, Request request, bool welcome) {
    const DaemonQp* const its = qp.in_daemon();
    if (its == nullptr || its->link()->program() != link_) {
      return fail(EINVAL, fmt::format("queue pair {:#x} is not of the daemon connection that this connection manager "
                                      "has; open both with the same options, in the same process",
                                      qp.qpn()));
    }
    request.qp = its->id();
    return welcome ? its->link()->post(op, request) : ask(*its->link(), op, request);
  }

  Result<void> destroy_channel(uint32_t channel) override {
    return send(Op::cm_destroy_channel, message::Handle{channel});
  }
  /// The daemon's own limit is kMaxEventsTaken.
  Result<std::vector<message::CmEventRecord>> take_events(uint32_t channel, std::size_t /*most*/) override {
    auto reply = link_->call<message::CmEventsReply>(Op::cm_take_events, message::Handle{channel});
    if (!reply) return std::unexpected(reply.error());
    return std::move(reply->events);
  }
  Result<uint32_t> create_id(uint32_t channel, PortSpace space, QpType type) override {
    auto reply = link_->call<message::Handle>(Op::cm_create_id, message::CmCreateId{channel, space, type});
    if (!reply) return std::unexpected(reply.error());
    return reply->id;
  }
  Result<void> destroy_id(uint32_t id) override { return send(Op::cm_destroy_id, message::Handle{id}); }
  Result<CmIdInfo> info(uint32_t id) override {
    auto reply = link_->call<message::CmInfoReply>(Op::cm_info, message::Handle{id});
    if (!reply) return std::unexpected(reply.error());
    return std::move(reply->info);
  }
  Result<void> bind(uint32_t id, const CmAddress& local) override {
    return send(Op::cm_bind, message::CmBind{id, local});
  }
  Result<void> resolve_addr(uint32_t id, const std::optional<CmAddress>& local, const CmAddress& remote,
                            std::chrono::milliseconds timeout) override {
    const message::CmResolve request{
        .id = id,
        .has_local = local.has_value(),
        .local = local.value_or(CmAddress{}),
        .remote = remote,
        .timeout_ms = static_cast<uint32_t>(std::clamp<int64_t>(timeout.count(), 0, UINT32_MAX))};
    return send(Op::cm_resolve_addr, request);
  }
  Result<void> resolve_route(uint32_t id) override { return send(Op::cm_resolve_route, message::Handle{id}); }
  Result<void> listen(uint32_t id, int backlog) override { return send(Op::cm_listen, message::CmListen{id, backlog}); }
  Result<void> connect(uint32_t id, const CmParam& param) override {
    return send(Op::cm_connect, message::CmTerms{.id = id, .param = param});
  }
  Result<void> establish(uint32_t id) override { return send(Op::cm_establish, message::Handle{id}); }
  Result<void> accept(uint32_t id, const CmParam& param) override {
    return send(Op::cm_accept, message::CmTerms{.id = id, .param = param});
  }
  Result<void> reject(uint32_t id, std::span<const std::byte> private_data, uint8_t reason) override {
    return send(Op::cm_reject, message::CmReject{id, reason, {private_data.begin(), private_data.end()}});
  }
  Result<void> disconnect(uint32_t id) override { return send(Op::cm_disconnect, message::CmDisconnect{.id = id}); }
  Result<void> notify_established(uint32_t id) override { return send(Op::cm_notify_established, message::Handle{id}); }
  Result<std::pair<QpAttr, QpAttrMask>> qp_attr(uint32_t id, QpState state) override {
    auto reply = link_->call<message::ModifyStep>(Op::cm_qp_attr, message::CmQpAttr{id, state});
    if (!reply) return std::unexpected(reply.error());
    return std::pair(reply->attr, reply->mask);
  }
  Result<void> set_option(uint32_t id, message::CmOption option, uint8_t value) override {
    return send(Op::cm_set_option, message::CmSetOption{id, option, value});
  }
  Result<void> join(uint32_t id, const CmAddress& group, uint64_t token) override {
    return send(Op::cm_join, message::CmGroup{id, group, token});
  }
  Result<void> leave(uint32_t id, const CmAddress& group) override {
    return send(Op::cm_leave, message::CmGroup{.id = id, .group = group});
  }
  Result<void> raise_event(uint32_t id, CmEventType type, int status, uint64_t argument) override {
    return send(Op::cm_raise_event, message::CmRaiseEvent{id, type, status, argument});
  }
  Result<void> migrate(uint32_t id, uint32_t channel, uint32_t taken) override {
    return send(Op::cm_migrate, message::CmMigrate{id, channel, taken});
  }

  std::shared_ptr<DaemonLink> link_;
  message::PipeWait pipe_wait_;
};

}  // namespace
}  // namespace client

Result<ConnectionManager> ConnectionManager::open(const DaemonOptions& options) {
  auto link = client::DaemonLink::of_program(options);
  if (!link) return std::unexpected(link.error());
  return ConnectionManager(std::make_shared<client::DaemonCm>(std::move(*link)));
}

}  // namespace uroce
