#include "client/in_process.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <sys/stat.h>

#include "client/completion_queue.h"
#include "client/context_interface.h"
#include "client/mapped_dmabuf.h"
#include "client/memory.h"
#include "client/protection_domain.h"
#include "client/queue_pair.h"
#include "client/shared_receive_queue.h"
#include "control/address_handle.h"
#include "control/cq.h"
#include "control/cq_channel.h"
#include "control/device_session.h"
#include "control/flow.h"
#include "control/qp.h"
#include "control/region.h"
#include "control/srq.h"
#include "control/window.h"
#include "control/xrc_domain.h"
#include "message/connection.h"

namespace uroce::client {
namespace {

template <class T>
std::shared_ptr<T> object_of(const Object& object) {
  return std::static_pointer_cast<T>(object);
}

class InProcessPd final : public PdImpl {
 public:
  InProcessPd(const ContextImpl& context, std::shared_ptr<control::Pd> object)
      : PdImpl(context), pd(std::move(object)) {}

  Result<std::shared_ptr<MrImpl>> register_memory(void* address, std::size_t length, uint64_t base,
                                                  AccessFlags access) override {
    auto region = pd->session()->register_memory(pd, base, length, static_cast<std::byte*>(address), access);
    if (!region) return std::unexpected(region.error());
    auto mr = region_of(std::move(*region));
    mr->base = base;
    mr->address = address;
    mr->length = length;
    return mr;
  }

  Result<std::shared_ptr<MrImpl>> register_dmabuf(int fd, uint64_t offset, std::size_t length, uint64_t base,
                                                  AccessFlags access) override {
    auto mapped = MappedDmabuf::make(
        fd, offset, length,
        access.has_any(AccessFlags(Access::local_write) | Access::remote_write | Access::remote_atomic));
    if (!mapped) return std::unexpected(mapped.error());
    std::byte* const data = (*mapped)->data();
    auto region = pd->session()->register_memory(pd, base, length, data, access, std::move(*mapped));
    if (!region) return std::unexpected(region.error());
    return region_of(std::move(*region));
  }

  Result<std::shared_ptr<MrImpl>> create_null_region() override {
    auto region = pd->session()->create_null_region(pd);
    if (!region) return std::unexpected(region.error());
    return region_of(std::move(*region));
  }

  Result<void> reregister(MrImpl& mr, void* address, std::size_t length, uint64_t base, AccessFlags access) override {
    return object_of<control::Region>(mr.object)->change(pd, base, length, static_cast<std::byte*>(address), access,
                                                         nullptr);
  }

  Result<std::shared_ptr<MwImpl>> create_window(WindowType type) override {
    auto window = pd->session()->create_window(pd, type);
    if (!window) return std::unexpected(window.error());
    auto mw = std::make_shared<MwImpl>();
    mw->key = (*window)->key();
    mw->type = type;
    mw->object = std::move(*window);
    return mw;
  }

  Result<std::shared_ptr<AhImpl>> create_address_handle(const AddressVector& av) override {
    auto handle = pd->session()->create_address_handle(pd, av);
    if (!handle) return std::unexpected(handle.error());
    auto ah = std::make_shared<AhImpl>();
    ah->id = (*handle)->id();
    ah->object = std::move(*handle);
    return ah;
  }

  const std::shared_ptr<control::Pd> pd;

 private:
  std::shared_ptr<MrImpl> region_of(std::shared_ptr<control::Region> region) const {
    auto mr = std::make_shared<MrImpl>();
    mr->key = region->key();
    mr->windows = [session = pd->session(), key = mr->key]() -> Result<uint32_t> {
      return session->device()->bound_windows(key);
    };
    mr->object = std::move(region);
    return mr;
  }
};

class InProcessFlow final : public FlowImpl {
 public:
  explicit InProcessFlow(std::shared_ptr<control::Flow> flow) : flow_(std::move(flow)) {}
  Result<FlowCounters> counters() const override { return flow_->counters(); }

 private:
  std::shared_ptr<control::Flow> flow_;
};

class InProcessQp final : public QpImpl {
 public:
  InProcessQp(const ContextImpl& context, std::shared_ptr<control::ControlQp> qp)
      : QpImpl(context, parts_of(*qp)), qp_(std::move(qp)) {}
  Result<QpAttr> query() const override { return qp_->query(); }
  Result<void> attach_multicast(const Gid& group) override { return qp_->attach_multicast(group); }
  Result<void> detach_multicast(const Gid& group) override { return qp_->detach_multicast(group); }
  Result<std::shared_ptr<FlowImpl>> create_flow(std::span<const QpImpl* const> table, const FlowRule& rule,
                                                const RxHash& hash) override {
    control::Flow::Table qps;
    for (const QpImpl* qp : table) qps.push_back(static_cast<const InProcessQp*>(qp)->qp_);
    auto flow = control::Flow::create(std::move(qps), rule, hash);
    if (!flow) return std::unexpected(flow.error());
    return std::make_shared<InProcessFlow>(std::move(*flow));
  }

 private:
  static QpParts parts_of(const control::ControlQp& qp) {
    return {.qpn = qp.qpn(),
            .type = qp.type(),
            .cap = qp.type() == QpType::xrc_target ? kNoQueues : qp.cap(),
            .place = {qp.doorbell_flag(), qp.send_queue(), qp.recv_queue()},
            .doorbell = qp.doorbell()};
  }
  Result<void> change(std::span<const QueuePair::Step> steps) override {
    for (const auto& [attr, mask] : steps) {
      if (auto changed = qp_->modify(attr, mask); !changed) return changed;
    }
    return {};
  }
  void wake() override { qp_->session()->device()->wake(qp_->engine()); }
  std::shared_ptr<control::ControlQp> in_process() const override { return qp_; }

  std::shared_ptr<control::ControlQp> qp_;
};

class InProcessContext final : public ContextImpl {
 public:
  explicit InProcessContext(std::shared_ptr<control::DeviceSession> session)
      : session_(std::move(session)), info_(session_->device()->info()) {}

  const DeviceInfo& info() const override { return info_; }
  Result<std::vector<Gid>> gids() const override { return session_->device()->gids(); }
  Result<bool> link_up() const override { return session_->device()->link_up(); }
  Result<uint64_t> clock_ns() const override {
    auto now = session_->device()->clock();
    if (!now) return std::unexpected(now.error());
    return static_cast<uint64_t>(now->count());
  }

  Result<std::shared_ptr<PdImpl>> create_pd() override {
    auto pd = session_->create_pd();
    if (!pd) return std::unexpected(pd.error());
    return std::make_shared<InProcessPd>(*this, std::move(*pd));
  }

  Result<std::shared_ptr<ChannelImpl>> create_channel() override {
    auto channel = session_->create_channel();
    if (!channel) return std::unexpected(channel.error());
    const int fd = (*channel)->fd();
    return std::make_shared<ChannelImpl>(shared_from_this(), std::move(*channel), fd);
  }

  Result<std::shared_ptr<CqImpl>> create_cq(uint32_t entries, std::shared_ptr<ChannelImpl> channel,
                                            CqOptions options) override {
    auto cq = session_->create_cq(entries, channel ? object_of<control::CqChannel>(channel->object()) : nullptr,
                                  options.ignore_overrun ? transport::CqOverrun::ignored : transport::CqOverrun::fails);
    if (!cq) return std::unexpected(cq.error());
    const auto resize = [raw = cq->get()](uint32_t wanted) -> Result<queues::CqPlace> {
      if (auto done = raw->resize(wanted); !done) return std::unexpected(done.error());
      return raw->place();
    };
    CqParts parts{.object = *cq, .resize = resize, .id = (*cq)->id(), .rings = (*cq)->rings(), .place = (*cq)->place()};
    parts.moderate = [raw = cq->get()](uint16_t count, uint16_t period_us) { return raw->moderate(count, period_us); };
    parts.channel = std::move(channel);
    return std::make_shared<CqImpl>(*this, std::move(parts));
  }

  Result<std::shared_ptr<SrqImpl>> create_srq(const PdImpl& pd, uint32_t max_wr, uint32_t max_sge) override {
    return publish_srq(session_->create_srq(static_cast<const InProcessPd&>(pd).pd, max_wr, max_sge));
  }

  Result<std::shared_ptr<XrcDomainImpl>> open_xrc_domain(const XrcDomainInit& init) override;

  Result<std::shared_ptr<SrqImpl>> create_xrc_srq(const PdImpl& pd, const XrcDomainImpl& domain, const CqImpl& cq,
                                                  uint32_t max_wr, uint32_t max_sge) override {
    return publish_srq(session_->create_srq(
        static_cast<const InProcessPd&>(pd).pd, max_wr, max_sge,
        {.domain = object_of<control::XrcDomain>(domain.object), .cq = object_of<control::Cq>(cq.object())}));
  }

  Result<std::shared_ptr<QpImpl>> create_xrc_target(const XrcDomainImpl& domain, const QpInit& init) override {
    return target_of(session_->create_xrc_target(object_of<control::XrcDomain>(domain.object), init));
  }
  Result<std::shared_ptr<QpImpl>> open_xrc_target(const XrcDomainImpl& domain, uint32_t qpn) override {
    return target_of(session_->open_xrc_target(object_of<control::XrcDomain>(domain.object), qpn));
  }

  Result<std::shared_ptr<SrqImpl>> publish_srq(Result<std::shared_ptr<control::ControlSrq>> srq) {
    if (!srq) return std::unexpected(srq.error());
    SrqParts parts{.object = *srq, .id = (*srq)->id(), .max_sge = (*srq)->max_sge(), .place = (*srq)->place()};
    parts.resize = [raw = srq->get()](uint32_t wanted) -> Result<queues::SrqPlace> {
      if (auto done = raw->resize(wanted); !done) return std::unexpected(done.error());
      return raw->place();
    };
    return std::make_shared<SrqImpl>(*this, std::move(parts));
  }

  Result<std::shared_ptr<QpImpl>> create_qp(const PdImpl& pd, const CqImpl& send_cq, const CqImpl& recv_cq,
                                            const QpInit& init, const SrqImpl* srq, QpSteps steps) override {
    auto qp = session_->create_qp(static_cast<const InProcessPd&>(pd).pd, object_of<control::Cq>(send_cq.object()),
                                  object_of<control::Cq>(recv_cq.object()), init,
                                  srq != nullptr ? object_of<control::ControlSrq>(srq->parts().object) : nullptr);
    if (!qp) return std::unexpected(qp.error());
    auto made = std::make_shared<InProcessQp>(*this, std::move(*qp));
    if (auto changed = made->modify(steps); !changed) return std::unexpected(changed.error());
    return made;
  }

  Result<std::shared_ptr<QpImpl>> target_of(Result<std::shared_ptr<control::ControlQp>> qp) const {
    if (!qp) return std::unexpected(qp.error());
    return std::make_shared<InProcessQp>(*this, std::move(*qp));
  }

  int async_fd() const override { return session_->events().fd(); }
  std::optional<AsyncEvent> take_async_event() override { return session_->events().pop(); }
  std::vector<std::pair<std::string, uint64_t>> counters() const override { return session_->device()->counters(); }
  Wake wait_readable(int fd, std::chrono::nanoseconds timeout) override {
    return session_->device()->wait_readable(fd, timeout) ? Wake::readable : Wake::timeout;
  }

 private:
  std::shared_ptr<control::DeviceSession> session_;
  DeviceInfo info_;
};

Result<std::shared_ptr<XrcDomainImpl>> InProcessContext::open_xrc_domain(const XrcDomainInit& init) {
  std::optional<control::XrcFile> file;
  std::shared_ptr<message::Fd> held;
  if (init.fd >= 0) {
    struct stat about{};
    held = std::make_shared<message::Fd>(fcntl(init.fd, F_DUPFD_CLOEXEC, 0));
    if (!*held || fstat(held->get(), &about) != 0) {
      const int code = errno;
      return fail(code,
                  "cannot open an XRC domain: descriptor " + std::to_string(init.fd) + ": " + std::strerror(code));
    }
    file = {.device = about.st_dev, .inode = about.st_ino};
  }
  auto domain = control::XrcDomain::open(session_->device(), file, {.create = init.create, .exclusive = init.exclusive},
                                         std::move(held));
  if (!domain) return std::unexpected(domain.error());
  auto impl = std::make_shared<XrcDomainImpl>(*this);
  impl->object = std::move(*domain);
  return impl;
}

}  // namespace

Result<std::shared_ptr<ContextImpl>> make_in_process_context(const std::shared_ptr<control::Device>& device) {
  auto session = control::DeviceSession::open(device);
  if (!session) return std::unexpected(session.error());
  return std::make_shared<InProcessContext>(std::move(*session));
}

}  // namespace uroce::client
