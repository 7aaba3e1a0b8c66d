// What each message does.
#include <algorithm>
#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

#include <fmt/format.h>

#include <uroce/version.h>

#include "service/client.h"
#include "service/client_reply.h"

namespace uroce::service {
namespace {

/// A quarter of what the kernel lets a process map, so that no client takes all.
constexpr uint32_t kMaxMappings = 16384;

/// Q_Keys that only who may speak for the host can set, QP1's among them.
constexpr uint32_t kControlledQkey = 1u << 31;

constexpr uint32_t kKnownAccess =
    (Access::local_write | Access::remote_write | Access::remote_read | Access::remote_atomic | Access::mw_bind |
     Access::zero_based | Access::relaxed_ordering | Access::remote_invalidate)
        .bits();

message::Place place_of(const control::QueueMemory& memory) {
  const auto& placed = static_cast<const ArenaMemory&>(memory);
  return {.chunk = placed.chunk(), .offset = placed.offset(), .bytes = placed.size()};
}

/// Values that the wire format carries and the enumerations do not have.
Result<void> check_enums(const QpAttr& attr) {
  if (attr.state > QpState::error || attr.cur_state > QpState::error) {
    return fail(EINVAL, fmt::format("QP state {} is none", static_cast<uint32_t>(attr.state)));
  }
  return {};
}

}  // namespace

Result<Client::Reply> Client::call(message::Op op, std::span<const std::byte> bytes, std::vector<message::Fd>& fds) {
  using message::Op;
  if (!greeted_ && op != Op::hello) {
    malformed_ = true;
    return fail(EPROTO, "the first message must be a hello");
  }
  switch (op) {
    case Op::hello: return with<message::Hello>(bytes, [this](const auto& request) { return hello(request); });
    case Op::open_device:
      return with<message::OpenDevice>(bytes, [this](const auto& request) { return open_device(request); });
    case Op::capture: return with<message::OpenDevice>(bytes, [this](const auto& request) { return capture(request); });
    case Op::list_clients:
      return with<message::ListClients>(
          bytes, [this](const auto& request) { return reply(server_.client_rows(request.after)); });
    case Op::list_objects:
      return with<message::ListObjects>(bytes,
                                        [this](const auto& request) { return reply(server_.object_rows(request)); });
    default: break;
  }
  if (op >= Op::cm_create_channel && op <= Op::cm_migrate) return call_connections(op, bytes);
  if (session_ == nullptr) return fail(EINVAL, "no device is open on this connection; open one first");
  return call_object(op, bytes, fds);
}

Result<Client::Reply> Client::call_object(message::Op op, std::span<const std::byte> bytes,
                                          std::vector<message::Fd>& fds) {
  using message::Op;
  switch (op) {
    case Op::create_pd:
      return with<message::Empty>(bytes, [this](const auto&) -> Result<Reply> {
        if (auto room = pds_.check_room(limits_.max_pd); !room) return std::unexpected(room.error());
        auto pd = session_->create_pd();
        if (!pd) return std::unexpected(pd.error());
        return reply(message::Handle{pds_.add(std::move(*pd))});
      });
    case Op::register_memory:
      return with<message::RegisterMemory>(bytes,
                                           [this, &fds](const auto& request) { return register_memory(request, fds); });
    case Op::reregister_memory:
      return with<message::ReregisterMemory>(
          bytes, [this, &fds](const auto& request) { return reregister_memory(request, fds); });
    case Op::create_window:
      return with<message::CreateWindow>(bytes, [this](const auto& request) -> Result<Reply> {
        if (auto room = windows_.check_room(limits_.max_mr); !room) return std::unexpected(room.error());
        auto pd = pds_.find(request.pd);
        if (!pd) return std::unexpected(pd.error());
        auto window = session_->create_window(std::move(*pd), request.type);
        if (!window) return std::unexpected(window.error());
        const uint32_t key = (*window)->key();
        return reply(message::CreateWindowReply{.id = windows_.add(std::move(*window)), .key = key});
      });
    case Op::count_windows:
      return with<message::Handle>(bytes, [this](const auto& request) -> Result<Reply> {
        auto region = regions_.find(request.id);
        if (!region) return std::unexpected(region.error());
        return reply(message::WindowCount{session_->device()->bound_windows((*region)->key)});
      });
    case Op::create_channel: return with<message::Empty>(bytes, [this](const auto&) { return create_channel(); });
    case Op::create_cq:
      return with<message::CreateCq>(bytes, [this](const auto& request) { return create_cq(request); });
    case Op::resize_cq:
      return with<message::ResizeCq>(bytes, [this](const auto& request) -> Result<Reply> {
        auto cq = cqs_.find(request.cq);
        if (!cq) return std::unexpected(cq.error());
        if (auto done = (*cq)->resize(request.entries); !done) return std::unexpected(done.error());
        return reply(message::ResizeCqReply{.entries = (*cq)->entries(), .ring_place = place_of((*cq)->ring_memory())});
      });
    case Op::clock:
      return with<message::Empty>(bytes, [this](const auto&) -> Result<Reply> {
        auto now = session_->device()->clock();
        if (!now) return std::unexpected(now.error());
        return reply(message::Clock{static_cast<uint64_t>(now->count())});
      });
    case Op::create_srq:
      return with<message::CreateSrq>(bytes, [this](const auto& request) { return create_srq(request); });
    case Op::create_qp:
      return with<message::CreateQp>(bytes, [this](const auto& request) { return create_qp(request); });
    case Op::modify_qp:
      return with<message::ModifyQp>(bytes, [this](const auto& request) { return modify_qp(request); });
    case Op::query_qp:
      return with<message::Handle>(bytes, [this](const auto& request) -> Result<Reply> {
        auto qp = qps_.find(request.id);
        if (!qp) return std::unexpected(qp.error());
        auto attr = (*qp)->query();
        if (!attr) return std::unexpected(attr.error());
        return reply(*attr);
      });
    case Op::create_address_handle:
      return with<message::CreateAddressHandle>(bytes, [this](const auto& request) -> Result<Reply> {
        if (auto room = handles_.check_room(limits_.max_ah); !room) return std::unexpected(room.error());
        auto pd = pds_.find(request.pd);
        if (!pd) return std::unexpected(pd.error());
        auto handle = session_->create_address_handle(std::move(*pd), request.av);
        if (!handle) return std::unexpected(handle.error());
        const uint32_t number = (*handle)->id();
        return reply(message::CreateAddressHandleReply{.id = handles_.add(std::move(*handle)), .number = number});
      });
    case Op::attach_multicast:
    case Op::detach_multicast:
      return with<message::Multicast>(bytes, [this, op](const auto& request) -> Result<Reply> {
        auto qp = qps_.find(request.qp);
        if (!qp) return std::unexpected(qp.error());
        const Gid group{request.gid};
        const auto done = op == Op::attach_multicast ? (*qp)->attach_multicast(group) : (*qp)->detach_multicast(group);
        if (!done) return std::unexpected(done.error());
        return Reply{};
      });
    case Op::destroy: return with<message::Destroy>(bytes, [this](const auto& request) { return destroy(request); });
    case Op::counters:
      return with<message::Empty>(bytes, [this](const auto&) {
        auto counters = session_->device()->counters();
        if (const auto& port = server_.ports().counters) {
          std::ranges::move(port(session_->device()->config().name), std::back_inserter(counters));
        }
        if (const cm::Manager* manager = server_.connections()) {
          std::ranges::move(manager->counters(session_->device()->config().name), std::back_inserter(counters));
        }
        return reply(message::Counters{std::move(counters)});
      });
    case Op::query_gids:
      return with<message::Empty>(bytes, [this](const auto&) {
        message::Gids gids;
        for (const Gid& gid : session_->device()->gids()) gids.bytes.push_back(gid.bytes);
        return reply(gids);
      });
    case Op::link_up:
      return with<message::Empty>(bytes, [this](const auto&) -> Result<Reply> {
        auto up = session_->device()->link_up();
        if (!up) return std::unexpected(up.error());
        return reply(message::LinkUp{*up});
      });
    default: break;
  }
  malformed_ = true;
  return fail(EPROTO, fmt::format("there is no message of kind {}", static_cast<uint32_t>(op)));
}

Result<Client::Reply> Client::modify_qp(const message::ModifyQp& request) {
  auto qp = qps_.find(request.qp);
  if (!qp) return std::unexpected(qp.error());
  if (request.steps.size() > message::kMaxModifySteps) {
    return fail(EINVAL, fmt::format("a queue pair's change has {} steps; at most {} go into one call",
                                    request.steps.size(), message::kMaxModifySteps));
  }
  for (const message::ModifyStep& step : request.steps) {
    const QpAttr attr = step.attr;
    if (auto ok = check_enums(attr); !ok) return std::unexpected(ok.error());
    if (step.mask.has(QpAttrBit::qkey) && (attr.qkey & kControlledQkey) != 0 && uid_ != 0) {
      return fail(EPERM, fmt::format("Q_Key {:#x} has the high bit set, which is for privileged programs (IBTA vol. "
                                     "1, 10.2.5); choose one below {:#x}",
                                     attr.qkey, kControlledQkey));
    }
    if (auto changed = (*qp)->modify(attr, step.mask); !changed) return std::unexpected(changed.error());
  }
  return Reply{};
}

Result<Client::Reply> Client::hello(const message::Hello& request) {
  const message::Hello own{.queue_abi = queues::kAbiVersion, .version = kVersion};
  if (request.magic != own.magic) {
    malformed_ = true;
    return fail(EPROTO, "the first message is no hello");
  }
  if (request.protocol != own.protocol || request.queue_abi != own.queue_abi) {
    const bool older = std::pair(request.protocol, request.queue_abi) < std::pair(own.protocol, own.queue_abi);
    return fail(EPROTO, fmt::format("the application's uroce library is {} (protocol {}, queues {}), the daemon is {} "
                                    "(protocol {}, queues {}); upgrade the {}",
                                    request.version, request.protocol, request.queue_abi, own.version, own.protocol,
                                    own.queue_abi, older ? "application's library" : "daemon (uroced)"));
  }
  greeted_ = true;
  message::HelloReply answer{.daemon = own};
  for (const auto& device : server_.devices()) answer.devices.push_back(device->info());
  return reply(answer);
}

// Frames hold what all clients say: as with the kernel's raw sockets, not for everybody. Capabilities are not asked
// for: /proc shows those that a process has in its own user namespace.
Result<Client::Reply> Client::capture(const message::OpenDevice& request) {
  if (uid_ != 0 && uid_ != geteuid()) {
    return fail(EPERM, fmt::format("capturing is for root and the daemon's own user, not for user {}", uid_));
  }
  if (capture_ != nullptr) return fail(EBUSY, "this connection captures already; use another for another device");
  if (!server_.ports().capture) return fail(EOPNOTSUPP, "this daemon cannot capture");
  auto capture = server_.ports().capture(request.name);
  if (!capture) return std::unexpected(capture.error());
  capture_ = std::move(*capture);
  Reply out;
  out.fds.push_back(capture_->fd());
  message::encode(out.body, message::CaptureReply{.rings = capture_->rings(), .epoch_ns = capture_->epoch_ns()});
  return out;
}

Result<Client::Reply> Client::open_device(const message::OpenDevice& request) {
  if (session_ != nullptr) return fail(EINVAL, "a device is open on this connection; use another for another device");
  const auto& devices = server_.devices();
  const auto device = std::ranges::find_if(devices, [&](const auto& d) { return d->config().name == request.name; });
  if (device == devices.end()) {
    return fail(ENODEV,
                fmt::format("the daemon has no device '{}'; `uroce devices` lists them", request.name.substr(0, 64)));
  }
  auto arena = std::make_shared<Arena>(limits_.max_queue_bytes);
  auto session = (*device)->open(arena);
  if (!session) return std::unexpected(session.error());
  int ends[2];
  if (pipe2(ends, O_NONBLOCK | O_CLOEXEC) != 0) {
    const int code = errno;
    return fail(code, "pipe: the daemon has no more descriptors; raise its limit (LimitNOFILE)");
  }
  Reply out;
  out.owned.emplace_back(ends[0]);
  message::Fd write_end(ends[1]);
  for (uint32_t engine = 0; engine < (*device)->engines(); ++engine) {
    auto wake = (*device)->wake_descriptor(engine);
    if (!wake) return std::unexpected(wake.error());
    out.owned.emplace_back(*wake);
  }
  for (const auto& fd : out.owned) out.fds.push_back(fd.get());
  message::encode(out.body, message::OpenDeviceReply{.device = (*device)->info(),
                                                     .doorbells = place_of((*session)->doorbells()),
                                                     .doorbell_entries = (*session)->doorbell_entries()});
  const std::scoped_lock lock(session_mutex_);
  session_ = std::move(*session);
  arena_ = std::move(arena);
  async_pipe_ = std::move(write_end);
  return out;
}

Result<void> Client::check_registered(const message::RegisterMemory& wanted, uint64_t less, uint32_t fewer) const {
  const uint64_t held = registered_bytes_.load(std::memory_order_relaxed) - less;
  if (wanted.length > limits_.max_registered_bytes || held > limits_.max_registered_bytes - wanted.length) {
    return fail(ENOMEM, fmt::format("{} more bytes of registered memory would bring this client past its limit of {} "
                                    "(max_registered_bytes); it has {}",
                                    wanted.length, limits_.max_registered_bytes, held));
  }
  if (wanted.segments.size() > kMaxMappings - (mappings_.load(std::memory_order_relaxed) - fewer)) {
    return fail(ENOMEM, fmt::format("memory in {} pieces would bring this client past {} mapped by the daemon, whose "
                                    "mappings are limited (vm.max_map_count); register fewer, larger regions",
                                    wanted.segments.size(), kMaxMappings));
  }
  return {};
}

Result<std::shared_ptr<Client::Region>> Client::map_region(const message::RegisterMemory& wanted,
                                                           std::span<const message::Fd> fds) {
  auto mapped = Mapping::make(wanted.segments, fds, wanted.address, wanted.length, wanted.writable());
  if (!mapped) return std::unexpected(mapped.error());
  auto region = std::make_shared<Region>();
  region->mapping = std::move(*mapped);
  region->access = AccessFlags::from_bits(wanted.access.bits() & kKnownAccess);
  region->length = wanted.length;
  region->segments = static_cast<uint32_t>(wanted.segments.size());
  return region;
}

Result<Client::Reply> Client::reregister_memory(const message::ReregisterMemory& request,
                                                std::span<const message::Fd> fds) {
  auto region = regions_.find(request.region);
  if (!region) return std::unexpected(region.error());
  const Region& old = **region;
  std::shared_ptr<control::Region> object;
  {
    const std::scoped_lock lock(broken_mutex_);
    object = old.region;
  }
  if (object == nullptr) return fail(EINVAL, fmt::format("memory region {:#x} has lost its pages", old.key));
  const message::RegisterMemory& now = request.now;
  auto pd = pds_.find(now.pd);
  if (!pd) return std::unexpected(pd.error());
  if (auto room = check_registered(now, old.length, old.segments); !room) return std::unexpected(room.error());
  auto mapped = map_region(now, fds);
  if (!mapped) return std::unexpected(mapped.error());
  // Rows that others look at show either region.
  std::shared_ptr<Region> fresh = std::move(*mapped);
  auto changed =
      object->change(std::move(*pd), now.base, now.length, fresh->mapping->data(), fresh->access, fresh->mapping);
  if (!changed) return std::unexpected(changed.error());
  fresh->key = old.key;
  fresh->region = std::move(object);
  registered_bytes_.fetch_add(fresh->length - old.length, std::memory_order_relaxed);
  mappings_.fetch_add(fresh->segments - old.segments, std::memory_order_relaxed);
  regions_.replace(request.region, std::move(fresh));
  return Reply{};
}

Result<Client::Reply> Client::register_memory(const message::RegisterMemory& request,
                                              std::span<const message::Fd> fds) {
  auto pd = pds_.find(request.pd);
  if (!pd) return std::unexpected(pd.error());
  if (auto room = regions_.check_room(limits_.max_mr); !room) return std::unexpected(room.error());
  if (auto room = check_registered(request, 0, 0); !room) return std::unexpected(room.error());
  auto mapped = map_region(request, fds);
  if (!mapped) return std::unexpected(mapped.error());
  std::shared_ptr<Region> region = std::move(*mapped);
  auto registered = session_->register_memory(std::move(*pd), request.base, request.length, region->mapping->data(),
                                              region->access, region->mapping);
  if (!registered) return std::unexpected(registered.error());
  region->key = (*registered)->key();
  region->region = std::move(*registered);
  registered_bytes_.fetch_add(request.length, std::memory_order_relaxed);
  mappings_.fetch_add(region->segments, std::memory_order_relaxed);
  const uint32_t key = region->key;
  return reply(message::RegisterMemoryReply{.id = regions_.add(std::move(region)), .key = key});
}

Result<Client::Reply> Client::create_channel() {
  if (auto room = channels_.check_room(limits_.max_cq); !room) return std::unexpected(room.error());
  auto channel = session_->create_channel();
  if (!channel) return std::unexpected(channel.error());
  const int fd = (*channel)->fd();
  auto out = reply(message::Handle{channels_.add(std::move(*channel))});
  out->fds.push_back(fd);
  return out;
}

Result<Client::Reply> Client::create_cq(const message::CreateCq& request) {
  if (auto room = cqs_.check_room(limits_.max_cq); !room) return std::unexpected(room.error());
  std::shared_ptr<control::Channel> channel;
  if (request.channel != 0) {
    auto found = channels_.find(request.channel);
    if (!found) return std::unexpected(found.error());
    channel = std::move(*found);
  }
  auto cq = session_->create_cq(request.entries, std::move(channel));
  if (!cq) return std::unexpected(cq.error());
  message::CreateCqReply answer{.number = (*cq)->id(),
                                .entries = (*cq)->entries(),
                                .rings = (*cq)->rings(),
                                .header = place_of((*cq)->header_memory()),
                                .ring_place = place_of((*cq)->ring_memory())};
  answer.id = cqs_.add(std::move(*cq));
  return reply(answer);
}

Result<Client::Reply> Client::create_srq(const message::CreateSrq& request) {
  if (auto room = srqs_.check_room(limits_.max_srq); !room) return std::unexpected(room.error());
  auto pd = pds_.find(request.pd);
  if (!pd) return std::unexpected(pd.error());
  auto srq = session_->create_srq(std::move(*pd), request.max_wr, request.max_sge);
  if (!srq) return std::unexpected(srq.error());
  message::CreateSrqReply answer{.number = (*srq)->id(),
                                 .max_wr = (*srq)->max_wr(),
                                 .max_sge = (*srq)->max_sge(),
                                 .place = place_of((*srq)->memory())};
  answer.id = srqs_.add(std::move(*srq));
  return reply(answer);
}

Result<Client::Reply> Client::create_qp(const message::CreateQp& request) {
  if (auto room = qps_.check_room(limits_.max_qp); !room) return std::unexpected(room.error());
  if (request.type != QpType::rc && request.type != QpType::uc && request.type != QpType::ud) {
    return fail(EINVAL, fmt::format("QP type {} is none", static_cast<uint32_t>(request.type)));
  }
  auto pd = pds_.find(request.pd);
  if (!pd) return std::unexpected(pd.error());
  auto send_cq = cqs_.find(request.send_cq);
  if (!send_cq) return std::unexpected(send_cq.error());
  auto recv_cq = cqs_.find(request.recv_cq);
  if (!recv_cq) return std::unexpected(recv_cq.error());
  std::shared_ptr<control::Srq> srq;
  if (request.srq != 0) {
    auto found = srqs_.find(request.srq);
    if (!found) return std::unexpected(found.error());
    srq = std::move(*found);
  }
  const QpInit init{.type = request.type,
                    .cap = request.cap,
                    .signal_all = request.signal_all,
                    .engine = request.engine,
                    .retransmission = request.retransmission,
                    .congestion_control = request.congestion_control};
  auto qp = session_->create_qp(std::move(*pd), std::move(*send_cq), std::move(*recv_cq), init, std::move(srq));
  if (!qp) return std::unexpected(qp.error());
  message::CreateQpReply answer{
      .qpn = (*qp)->qpn(), .engine = (*qp)->engine(), .cap = (*qp)->cap(), .place = place_of((*qp)->memory())};
  answer.id = qps_.add(std::move(*qp));
  return reply(answer);
}

Result<Client::Reply> Client::destroy(const message::Destroy& request) {
  const auto gone = [](auto taken) -> Result<Reply> {
    if (!taken) return std::unexpected(taken.error());
    taken->reset();  // waits for the engines where it must
    return Reply{};
  };
  switch (request.kind) {
    case message::Kind::pd: return gone(pds_.take(request.id));
    case message::Kind::mr: {
      auto region = regions_.take(request.id);
      if (region) {
        registered_bytes_.fetch_sub((*region)->length, std::memory_order_relaxed);
        mappings_.fetch_sub((*region)->segments, std::memory_order_relaxed);
      }
      return gone(std::move(region));
    }
    case message::Kind::channel: return gone(channels_.take(request.id));
    case message::Kind::cq: return gone(cqs_.take(request.id));
    case message::Kind::srq: return gone(srqs_.take(request.id));
    case message::Kind::qp: return gone(qps_.take(request.id));
    case message::Kind::address_handle: return gone(handles_.take(request.id));
    case message::Kind::window: return gone(windows_.take(request.id));
  }
  return fail(EINVAL, fmt::format("there is no kind {} of object", static_cast<uint32_t>(request.kind)));
}

std::vector<message::ObjectRow> Client::objects(message::Kind kind, uint32_t after, std::size_t most) const {
  std::vector<message::ObjectRow> rows;
  const auto add = [&](uint32_t id, std::vector<std::pair<std::string, std::string>> values) {
    rows.push_back({.client = id_, .id = id, .values = std::move(values)});
  };
  switch (kind) {
    case message::Kind::mr:
      for (const auto& [id, region] : regions_.after(after, most)) {
        add(id, {{"key", fmt::format("{:#010x}", region->key)},
                 {"length", std::to_string(region->length)},
                 {"access", fmt::format("{:#x}", region->access.bits())},
                 {"mapped", std::to_string(region->mapping->bytes())}});
      }
      break;
    case message::Kind::cq:
      for (const auto& [id, cq] : cqs_.after(after, most)) {
        add(id, {{"cq", std::to_string(cq->id())}, {"entries", std::to_string(cq->entries())}});
      }
      break;
    case message::Kind::qp:
      for (const auto& [id, qp] : qps_.after(after, most)) add(id, qp->describe());
      break;
    default: break;
  }
  return rows;
}

}  // namespace uroce::service
