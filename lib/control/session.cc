#include "control/session.h"

#include <bit>
#include <cerrno>

#include <fmt/format.h>

namespace uroce::control {
namespace {

constexpr uint32_t kAsyncEventsBeyondQps = 1024;

Result<void> check_size(const char* what, uint64_t value, uint64_t min, uint64_t max) {
  if (value >= min && value <= max) return {};
  return fail(EINVAL, fmt::format("{} is {}; it must be {} to {}", what, value, min, max));
}

}  // namespace

Result<std::shared_ptr<Session>> Device::open(std::shared_ptr<QueueAllocator> allocator) {
  if (allocator == nullptr) allocator = std::make_shared<HeapAllocator>();
  auto fd = EventFd::create();
  if (!fd) return std::unexpected(fd.error());
  const auto lock = runner_.lock();
  if (auto alive = check_alive(); !alive) return std::unexpected(alive.error());
  if (sessions_ == kMaxSessions) {
    return fail(ENOMEM,
                fmt::format("{} is open {} times already, which is the limit; close one", config_.name, kMaxSessions));
  }
  // A slot per queue pair, and as many again for numbers of queue pairs that went before their ring was read.
  const uint32_t entries = 2 * std::bit_ceil(config_.max_qp);
  auto memory = allocator->allocate(queues::DoorbellPlace::bytes(entries, engines()));
  if (!memory) return std::unexpected(memory.error());
  auto events = std::make_unique<AsyncEventQueue>(std::move(*fd), config_.max_qp + kAsyncEventsBeyondQps);
  std::shared_ptr<Session> session;
  auto* raw = new Session(shared_from_this(), next_session_++, std::move(allocator), std::move(events),
                          std::move(*memory), entries);
  ++sessions_;
  if (auto attached = raw->attach(); !attached) {
    --sessions_;
    stuck_memory_.push_back(std::move(raw->doorbells_));
    delete raw;
    return std::unexpected(attached.error());
  }
  events_.add_listener(*raw->events_);
  return std::shared_ptr<Session>(raw, &Session::destroy);
}

Session::Session(std::shared_ptr<Device> device, uint32_t id, std::shared_ptr<QueueAllocator> allocator,
                 std::unique_ptr<AsyncEventQueue> events, std::unique_ptr<QueueMemory> doorbells,
                 uint32_t doorbell_entries)
    : device_(std::move(device)),
      id_(id),
      allocator_(std::move(allocator)),
      events_(std::move(events)),
      doorbells_(std::move(doorbells)),
      doorbell_entries_(doorbell_entries) {}

Session::~Session() = default;

std::byte* Session::doorbell_memory(uint32_t engine) const {
  return queues::DoorbellPlace::at(doorbells_->data(), doorbell_entries_, engine);
}

queues::DoorbellPoster Session::doorbell(uint32_t engine) const { return {doorbell_memory(engine), doorbell_entries_}; }

Result<void> Session::attach() {
  for (uint32_t index = 0; index < device_->engines(); ++index) {
    const queues::DoorbellReader reader(doorbell_memory(index), doorbell_entries_);
    const auto work = [reader, id = id_](transport::Engine& engine) { engine.attach_doorbells(reader, id); };
    if (auto ran = device_->runner_.run(index, work); !ran) return ran;
  }
  return {};
}

void Session::destroy(Session* session) {
  const std::shared_ptr<Device> device = session->device_;
  const auto lock = device->runner_.lock();
  device->events_.remove_listener(*session->events_);
  --device->sessions_;
  bool detached = true;
  for (uint32_t index = 0; index < device->engines(); ++index) {
    const auto work = [id = session->id_](transport::Engine& engine) { engine.detach_doorbells(id); };
    detached = device->runner_.run(index, work).has_value() && detached;
  }
  if (!detached) device->stuck_memory_.push_back(std::move(session->doorbells_));
  delete session;
}

Result<void> Session::check_owner(const void* object, const Session* owner, const char* what) const {
  if (object == nullptr) return fail(EINVAL, fmt::format("a {} is needed", what));
  if (owner == this) return {};
  return fail(EINVAL, fmt::format("the {} belongs to another context; create all objects from one Context", what));
}

Result<std::shared_ptr<Pd>> Session::create_pd() {
  const auto lock = device_->runner_.lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  return std::make_shared<Pd>(shared_from_this(), device_->next_pd_++);
}

Result<std::shared_ptr<Channel>> Session::create_channel() {
  auto pipe = EventPipe::create();
  if (!pipe) return std::unexpected(pipe.error());
  return std::make_shared<Channel>(shared_from_this(), std::move(*pipe));
}

Result<std::shared_ptr<Cq>> Session::create_cq(uint32_t entries, std::shared_ptr<Channel> channel) {
  if (auto ok = check_size("the completion queue's number of entries", entries, 1, kMaxCqe); !ok) {
    return std::unexpected(ok.error());
  }
  if (channel != nullptr) {
    if (auto ok = check_owner(channel.get(), channel->session().get(), "completion channel"); !ok) {
      return std::unexpected(ok.error());
    }
  }
  entries = std::bit_ceil(entries);
  const auto lock = device_->runner_.lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  auto header = allocator_->allocate(sizeof(queues::CqHeader));
  if (!header) return std::unexpected(header.error());
  auto rings = allocator_->allocate(queues::CqPlace::ring_bytes_of(entries, device_->engines()));
  if (!rings) return std::unexpected(rings.error());
  const auto id = device_->events_.cqs().take();
  if (!id) {
    return fail(ENOMEM, fmt::format("{} has {} completion queues, which is the limit (max_cq); share one between "
                                    "queue pairs",
                                    device_->config().name, kMaxCq));
  }
  std::shared_ptr<Cq> cq(new Cq(shared_from_this(), *id, entries, device_->engines(), std::move(*header),
                                std::move(*rings), std::move(channel)),
                         &Cq::destroy);
  device_->events_.cqs().set(*id, cq.get());
  device_->events_.add(EventObject::cq, *id, *events_);
  return cq;
}

Result<std::shared_ptr<Srq>> Session::create_srq(std::shared_ptr<Pd> pd, uint32_t max_wr, uint32_t max_sge) {
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  if (auto ok = check_size("the shared receive queue's max_wr", max_wr, 1, kMaxSrqWr); !ok) {
    return std::unexpected(ok.error());
  }
  if (auto ok = check_size("the shared receive queue's max_sge", max_sge, 0, kMaxSge); !ok) {
    return std::unexpected(ok.error());
  }
  const uint32_t entries = std::bit_ceil(max_wr);
  const auto lock = device_->runner_.lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  auto memory = allocator_->allocate(queues::SrqPlace::bytes(entries, max_sge));
  if (!memory) return std::unexpected(memory.error());
  const auto id = device_->srq_ids_.take();
  if (!id) {
    return fail(ENOMEM, fmt::format("{} has {} shared receive queues, which is the limit (max_srq)",
                                    device_->config().name, kMaxSrq));
  }
  std::shared_ptr<Srq> srq(new Srq(std::move(pd), *id, device_->place(), entries, max_sge, std::move(*memory)),
                           &Srq::destroy);
  device_->events_.add(EventObject::srq, *id, *events_);
  return srq;
}

Result<std::shared_ptr<Qp>> Session::create_qp(std::shared_ptr<Pd> pd, std::shared_ptr<Cq> send_cq,
                                               std::shared_ptr<Cq> recv_cq, const QpInit& init,
                                               std::shared_ptr<Srq> srq) {
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  for (const auto& cq : {send_cq, recv_cq}) {
    if (auto ok = check_owner(cq.get(), cq ? cq->session().get() : nullptr, "completion queue"); !ok) {
      return std::unexpected(ok.error());
    }
  }
  if (srq != nullptr) {
    if (auto ok = check_owner(srq.get(), srq->pd()->session().get(), "shared receive queue"); !ok) {
      return std::unexpected(ok.error());
    }
  }
  return Qp::create(*this, {std::move(pd), std::move(send_cq), std::move(recv_cq), std::move(srq)}, init, false);
}

Result<std::shared_ptr<Qp>> Session::create_gsi_qp(std::shared_ptr<Pd> pd, std::shared_ptr<Cq> cq, const QpCap& cap) {
  return Qp::create(*this, {std::move(pd), cq, cq, nullptr}, {.type = QpType::ud, .cap = cap}, true);
}

}  // namespace uroce::control
