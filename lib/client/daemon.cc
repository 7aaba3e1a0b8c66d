// A device of the daemon: each control call is a message, and the data path is shared memory.
#include <uroce/daemon.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <poll.h>
#include <unistd.h>

#include "base/no_cancel.h"
#include "client/completion_queue.h"
#include "client/context_interface.h"
#include "client/daemon_link.h"
#include "client/daemon_object.h"
#include "client/daemon_pd.h"
#include "client/daemon_qp.h"
#include "client/daemon_srq.h"
#include "client/queue_pair.h"
#include "client/shared_receive_queue.h"
#include "message/device_messages.h"
#include "message/memory_messages.h"
#include "message/qp_messages.h"
#include "message/queue_messages.h"
#include "message/xrc_messages.h"

namespace uroce::client {
namespace {

using message::Fd;
using message::Kind;
using message::Op;

class DaemonContext final : public ContextImpl {
 public:
  static Result<std::shared_ptr<DaemonContext>> open(const std::string& name, const DaemonOptions& options);

  const DeviceInfo& info() const override { return info_; }
  Result<std::vector<Gid>> gids() const override {
    auto reply = link_->call<message::Gids>(Op::query_gids, message::Empty{});
    if (!reply) return std::unexpected(reply.error());
    std::vector<Gid> out;
    for (const auto& bytes : reply->bytes) out.push_back({bytes});
    return out;
  }
  Result<bool> link_up() const override {
    auto reply = link_->call<message::LinkUp>(Op::link_up, message::Empty{});
    if (!reply) return std::unexpected(reply.error());
    return reply->up;
  }
  Result<uint64_t> clock_ns() const override {
    auto reply = link_->call<message::Clock>(Op::clock, message::Empty{});
    if (!reply) return std::unexpected(reply.error());
    return reply->ns;
  }
  Result<std::shared_ptr<PdImpl>> create_pd() override {
    auto reply = link_->call<message::Handle>(Op::create_pd, message::Empty{});
    if (!reply) return std::unexpected(reply.error());
    return std::make_shared<DaemonPd>(*this, link_, reply->id);
  }
  Result<std::shared_ptr<ChannelImpl>> create_channel() override;
  Result<std::shared_ptr<CqImpl>> create_cq(uint32_t entries, std::shared_ptr<ChannelImpl> channel,
                                            CqOptions options) override;
  Result<std::shared_ptr<SrqImpl>> create_srq(const PdImpl& pd, uint32_t max_wr, uint32_t max_sge) override;
  Result<std::shared_ptr<XrcDomainImpl>> open_xrc_domain(const XrcDomainInit& init) override;
  Result<std::shared_ptr<SrqImpl>> create_xrc_srq(const PdImpl& pd, const XrcDomainImpl& domain, const CqImpl& cq,
                                                  uint32_t max_wr, uint32_t max_sge) override;
  Result<std::shared_ptr<QpImpl>> create_xrc_target(const XrcDomainImpl& domain, const QpInit& init) override {
    return target_of(
        domain, link_->call<message::XrcTargetReply>(
                    Op::create_xrc_target, message::CreateXrcTarget{.domain = id_of(domain.object),
                                                                    .retransmission = init.retransmission,
                                                                    .congestion_control = init.congestion_control}));
  }
  Result<std::shared_ptr<QpImpl>> open_xrc_target(const XrcDomainImpl& domain, uint32_t qpn) override {
    return target_of(domain, link_->call<message::XrcTargetReply>(Op::open_xrc_target,
                                                                  message::OpenXrcTarget{id_of(domain.object), qpn}));
  }
  Result<std::shared_ptr<QpImpl>> create_qp(const PdImpl& pd, const CqImpl& send_cq, const CqImpl& recv_cq,
                                            const QpInit& init, const SrqImpl* srq, QpSteps steps) override;
  int async_fd() const override { return async_.get(); }
  std::optional<AsyncEvent> take_async_event() override;
  std::vector<std::pair<std::string, uint64_t>> counters() const override {
    auto reply = link_->call<message::Counters>(Op::counters, message::Empty{});
    return reply ? std::move(reply->values) : std::vector<std::pair<std::string, uint64_t>>{};
  }
  Wake wait_readable(int fd, std::chrono::nanoseconds timeout) override;
  bool lost() override { return link_->lost(); }

 private:
  Result<std::shared_ptr<QpImpl>> target_of(const XrcDomainImpl& domain, Result<message::XrcTargetReply> reply);
  Result<queues::DoorbellPoster> doorbells_of(const message::CreateQpReply& qp) const;

  std::shared_ptr<DeviceLink> link_;
  DeviceInfo info_;
  Fd async_;
  std::mutex async_mutex_;  // guards reads of the pipe, and ended_
  bool ended_ = false;      // the end of the pipe was reported as device_fatal
  message::PipeWait pipe_wait_;
  std::vector<Fd> wake_;            // by engine
  std::byte* doorbells_ = nullptr;  // a ring per engine
  uint32_t doorbell_entries_ = 0;
};

Result<std::shared_ptr<DaemonContext>> DaemonContext::open(const std::string& name, const DaemonOptions& options) {
  auto opened = DeviceLink::open(name, options);
  if (!opened) return std::unexpected(opened.error());
  auto& [link, reply, fds] = *opened;
  auto context = std::make_shared<DaemonContext>();
  context->link_ = std::move(link);
  if (fds.size() != reply.device.engines + std::size_t{1}) {
    return fail(EPROTO, "the uroce daemon: the reply that opens a device must have one descriptor, and one per engine");
  }
  auto doorbells = context->link_->memory(reply.doorbells);
  if (!doorbells) return std::unexpected(doorbells.error());
  context->info_ = reply.device;
  context->doorbells_ = *doorbells;
  context->doorbell_entries_ = reply.doorbell_entries;
  context->async_ = std::move(fds[0]);
  message::PipeWait::prepare(context->async_.get());
  for (std::size_t i = 1; i < fds.size(); ++i) context->wake_.push_back(std::move(fds[i]));
  return context;
}

Result<std::shared_ptr<ChannelImpl>> DaemonContext::create_channel() {
  std::vector<Fd> fds;
  auto reply = link_->call<message::Handle>(Op::create_channel, message::Empty{}, {}, &fds);
  if (!reply) return std::unexpected(reply.error());
  auto object = std::make_shared<DaemonObject>(link_, Kind::channel, reply->id);
  if (fds.size() != 1) return fail(EPROTO, "the uroce daemon: the reply with a completion channel has no descriptor");
  object->fd = std::move(fds[0]);
  const int fd = object->fd.get();
  message::PipeWait::prepare(fd);
  return std::make_shared<ChannelImpl>(shared_from_this(), std::move(object), fd);
}

Result<std::shared_ptr<CqImpl>> DaemonContext::create_cq(uint32_t entries, std::shared_ptr<ChannelImpl> channel,
                                                         CqOptions options) {
  const Object channel_object = channel ? channel->object() : nullptr;
  const message::CreateCq request{entries, id_of(channel_object), options.ignore_overrun};
  auto reply = link_->call<message::CreateCqReply>(Op::create_cq, request);
  if (!reply) return std::unexpected(reply.error());
  const auto place_of = [link = link_](const message::Place& header, const message::Place& rings,
                                       uint32_t count) -> Result<queues::CqPlace> {
    auto header_memory = link->memory(header);
    if (!header_memory) return std::unexpected(header_memory.error());
    auto ring_memory = link->memory(rings);
    if (!ring_memory) return std::unexpected(ring_memory.error());
    return queues::CqPlace::at(*header_memory, *ring_memory, count);
  };
  CqParts parts{.object = std::make_shared<DaemonObject>(link_, Kind::cq, reply->id, std::vector{channel_object}),
                .id = reply->number,
                .rings = reply->rings};
  auto place = place_of(reply->header, reply->ring_place, reply->entries);
  if (!place) return std::unexpected(place.error());
  parts.place = *place;
  parts.resize = [link = link_, id = reply->id, header = reply->header,
                  place_of](uint32_t wanted) -> Result<queues::CqPlace> {
    auto resized = link->call<message::ResizeCqReply>(Op::resize_cq, message::ResizeCq{id, wanted});
    if (!resized) return std::unexpected(resized.error());
    return place_of(header, resized->ring_place, resized->entries);
  };
  parts.moderate = [link = link_, id = reply->id](uint16_t count, uint16_t period_us) -> Result<void> {
    auto done = link->call<message::Empty>(Op::moderate_cq, message::ModerateCq{id, count, period_us});
    if (!done) return std::unexpected(done.error());
    return {};
  };
  parts.channel = std::move(channel);
  parts.daemon = link_->program();
  return std::make_shared<CqImpl>(*this, std::move(parts));
}

Result<std::shared_ptr<SrqImpl>> DaemonContext::create_srq(const PdImpl& pd, uint32_t max_wr, uint32_t max_sge) {
  const Object& pd_object = static_cast<const DaemonPd&>(pd).object;
  const message::CreateSrq request{id_of(pd_object), max_wr, max_sge};
  return publish_srq(*this, link_, link_->call<message::CreateSrqReply>(Op::create_srq, request), {pd_object}, false);
}

Result<std::shared_ptr<XrcDomainImpl>> DaemonContext::open_xrc_domain(const XrcDomainInit& init) {
  const std::span<const int> fds(&init.fd, init.fd >= 0 ? 1 : 0);
  auto reply =
      link_->call<message::Handle>(Op::open_xrc_domain, message::OpenXrcDomain{init.create, init.exclusive}, fds);
  if (!reply) return std::unexpected(reply.error());
  auto domain = std::make_shared<XrcDomainImpl>(*this);
  domain->object = std::make_shared<DaemonObject>(link_, Kind::xrc_domain, reply->id);
  return domain;
}

Result<std::shared_ptr<SrqImpl>> DaemonContext::create_xrc_srq(const PdImpl& pd, const XrcDomainImpl& domain,
                                                               const CqImpl& cq, uint32_t max_wr, uint32_t max_sge) {
  const Object& pd_object = static_cast<const DaemonPd&>(pd).object;
  const message::CreateXrcSrq request{
      .srq = {id_of(pd_object), max_wr, max_sge}, .domain = id_of(domain.object), .cq = id_of(cq.object())};
  auto srq = publish_srq(*this, link_, link_->call<message::CreateSrqReply>(Op::create_xrc_srq, request),
                         {pd_object, domain.object, cq.object()}, true);
  if (srq) (*srq)->complete_on(cq.flush_list());
  return srq;
}

Result<std::shared_ptr<QpImpl>> DaemonContext::target_of(const XrcDomainImpl& domain,
                                                         Result<message::XrcTargetReply> reply) {
  if (!reply) return std::unexpected(reply.error());
  auto object = std::make_shared<DaemonObject>(link_, Kind::qp, reply->id, std::vector{domain.object});
  const QpParts parts{.qpn = reply->qpn, .type = QpType::xrc_target, .cap = kNoQueues};
  return std::make_shared<DaemonQp>(*this, parts, link_, std::move(object), -1);
}

Result<std::shared_ptr<QpImpl>> DaemonContext::create_qp(const PdImpl& pd, const CqImpl& send_cq, const CqImpl& recv_cq,
                                                         const QpInit& init, const SrqImpl* srq, QpSteps steps) {
  const Object& pd_object = static_cast<const DaemonPd&>(pd).object;
  const Object srq_object = srq != nullptr ? srq->parts().object : nullptr;
  message::CreateQp request{.pd = id_of(pd_object),
                            .send_cq = id_of(send_cq.object()),
                            .recv_cq = id_of(recv_cq.object()),
                            .srq = id_of(srq_object),
                            .type = init.type,
                            .cap = init.cap,
                            .signal_all = init.signal_all,
                            .engine = init.engine,
                            .retransmission = init.retransmission,
                            .congestion_control = init.congestion_control,
                            .steps = to_messages(steps)};
  auto reply = link_->call<message::CreateQpReply>(Op::create_qp, request);
  if (!reply) return std::unexpected(reply.error());
  auto object = std::make_shared<DaemonObject>(link_, Kind::qp, reply->id,
                                               std::vector{pd_object, send_cq.object(), recv_cq.object(), srq_object});
  auto memory = link_->memory(reply->place);
  if (!memory) return std::unexpected(memory.error());
  if (reply->engine >= wake_.size())
    return fail(EPROTO, "the uroce daemon: a reply names an engine that the device does not have");
  QpParts parts{.qpn = reply->qpn, .type = init.type, .cap = reply->cap};
  const bool receives_itself = srq == nullptr && init.type != QpType::xrc_initiator;
  parts.place = queues::QpPlace::at(*memory, reply->cap, !receives_itself);
  auto doorbells = doorbells_of(*reply);
  if (!doorbells) return std::unexpected(doorbells.error());
  parts.doorbell = *doorbells;
  auto qp = std::make_shared<DaemonQp>(*this, parts, link_, std::move(object), wake_[reply->engine].get());
  qp->note(steps);
  using enum AbandonedRing::Holds;
  qp->complete_on(send_cq.flush_list(), std::make_shared<AbandonedRing>(parts.place.sq, sends));
  if (srq != nullptr) qp->complete_on(recv_cq.flush_list(), srq->parts().abandoned, parts.place.held_recv);
  if (receives_itself) {
    qp->complete_on(recv_cq.flush_list(), std::make_shared<AbandonedRing>(parts.place.rq, receives));
  }
  return qp;
}

Result<queues::DoorbellPoster> DaemonContext::doorbells_of(const message::CreateQpReply& qp) const {
  if (qp.doorbells.bytes == 0) {
    return queues::DoorbellPoster(queues::DoorbellPlace::at(doorbells_, doorbell_entries_, qp.engine),
                                  doorbell_entries_);
  }
  const auto memory = link_->memory(qp.doorbells);
  if (!memory) return std::unexpected(memory.error());
  return queues::DoorbellPoster(*memory, qp.doorbell_entries);
}

// The application may have made the descriptor blocking: poll first, and let one thread at a time read.
std::optional<AsyncEvent> DaemonContext::take_async_event() {
  const NoCancel guard;
  const std::scoped_lock lock(async_mutex_);
  pollfd waiting{.fd = async_.get(), .events = POLLIN, .revents = 0};
  if (ended_ || poll(&waiting, 1, 0) != 1) return std::nullopt;
  message::AsyncRecord record;
  if (read(async_.get(), &record, sizeof record) == sizeof record) {
    return AsyncEvent{static_cast<AsyncEventType>(record.type), record.object};
  }
  ended_ = true;
  link_->mark_lost();
  return AsyncEvent{AsyncEventType::device_fatal, 0};
}

Wake DaemonContext::wait_readable(int fd, std::chrono::nanoseconds timeout) {
  const Wake woken = pipe_wait_.sleep(fd, timeout);
  if (woken == Wake::lost) link_->mark_lost();
  return woken;
}

}  // namespace
}  // namespace uroce::client

namespace uroce {

Result<std::vector<DeviceInfo>> daemon_devices(const DaemonOptions& options) {
  auto link = client::DaemonLink::open(options);
  if (!link) return std::unexpected(link.error());
  return std::vector<DeviceInfo>((*link)->devices().begin(), (*link)->devices().end());
}

Result<Context> open_daemon_device(const std::string& name, const DaemonOptions& options) {
  auto context = client::DaemonContext::open(name, options);
  if (!context) return std::unexpected(context.error());
  return Context(std::move(*context));
}

}  // namespace uroce
