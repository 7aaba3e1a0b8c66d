#include "control/device_session.h"

#include <cerrno>

#include <fmt/format.h>

#include "control/cq_channel.h"
#include "transport/engine/doorbells.h"

namespace uroce::control {
namespace {

static_assert(kMaxSessions <= transport::Doorbells::kMaxRings, "an engine polls a doorbell ring of each session");

// The first `engines` engines poll the doorbells no more. False: one did not reply, and may still poll.
bool detach(Device& device, uint32_t id, uint32_t engines) {
  bool detached = true;
  for (uint32_t index = 0; index < engines; ++index) {
    const auto work = [id](transport::Engine& engine) { engine.detach_doorbells(id); };
    detached = device.runner().run(index, work).has_value() && detached;
  }
  return detached;
}

using Rings = std::vector<std::unique_ptr<QueueMemory>>;

// Gives the number of a session back, whose doorbells the first `engines` engines poll. The lock is held.
void end_doorbells(Device& device, uint32_t id, uint32_t engines, const std::shared_ptr<Rings>& rings) {
  if (detach(device, id, engines)) return device.objects().session_numbers().give_back(id);
  device.objects().defer([&device, id, engines, rings] {
    const auto lock = device.runner().lock();
    end_doorbells(device, id, engines, rings);
  });
}

}  // namespace

Result<std::shared_ptr<DeviceSession>> DeviceSession::open(std::shared_ptr<Device> device,
                                                           std::shared_ptr<QueueAllocator> allocator,
                                                           const transport::Owner& owner, const SessionState* as) {
  if (as != nullptr && as->doorbells.size() != device->engines()) {
    return fail(EINVAL, fmt::format("cannot go on with a session on {} engines: {} has {}", as->doorbells.size(),
                                    device->config().name, device->engines()));
  }
  if (allocator == nullptr) allocator = std::make_shared<HeapAllocator>();
  auto fd = EventFd::create();
  if (!fd) return std::unexpected(fd.error());
  Device& opened = *device;
  ObjectRegistry& objects = opened.objects();
  auto doorbells = SessionDoorbells::create(*allocator, opened.config().settings.max_qp, opened.engines());
  if (!doorbells) return std::unexpected(doorbells.error());
  auto lock = opened.runner().lock();
  if (auto alive = opened.check_alive(); !alive) return std::unexpected(alive.error());
  const auto id = objects.take_session();
  if (!id) return std::unexpected(id.error());
  auto events = std::make_unique<AsyncEventQueue>(std::move(*fd), AsyncEventQueue::kOfDevice, owner);
  auto session = std::unique_ptr<DeviceSession>(
      new DeviceSession(std::move(device), *id, std::move(allocator), std::move(events), std::move(*doorbells), owner));
  if (auto attached = session->attach(as); !attached) {
    objects.give_back_session();
    return std::unexpected(attached.error());
  }
  opened.events().add_listener(*session->events_);
  std::shared_ptr<DeviceSession> done(session.release(), &DeviceSession::destroy);
  lock.unlock();
  if (as == nullptr) return done;
  if (auto large = done->attach_large(*as); !large) return std::unexpected(large.error());
  return done;
}

DeviceSession::DeviceSession(std::shared_ptr<Device> device, uint32_t id, std::shared_ptr<QueueAllocator> allocator,
                             std::unique_ptr<AsyncEventQueue> events, SessionDoorbells doorbells,
                             const transport::Owner& owner)
    : device_(std::move(device)),
      id_(id),
      allocator_(std::move(allocator)),
      events_(std::move(events)),
      doorbells_(std::move(doorbells)),
      owner_(owner),
      engine_clients_(device_->engines()) {}

DeviceSession::~DeviceSession() = default;

Result<void> DeviceSession::attach(const SessionState* as) {
  if (as != nullptr) earlier_ = as->traffic;
  for (uint32_t index = 0; index < device_->engines(); ++index) {
    bool has_room = true;
    EngineClient& client = engine_clients_[index];
    const bool known = as != nullptr && !as->doorbells[index].empty();
    const uint32_t position = known ? as->doorbells[index].front() : 0;
    const auto work = [&has_room, &client, reader = doorbells_.small_ring(index).reader(position), id = id_,
                       owner = owner_](transport::Engine& engine) {
      has_room = engine.attach_doorbells(reader, id, owner);
      if (!has_room) return;
      client.number = engine.owners().client_of(id);
      client.before = engine.traffic().of(client.number);
    };
    auto ran = device_->runner().run(index, work);
    if (ran && !has_room) {
      ran = fail(ENOMEM, fmt::format("cannot open {}: engine {} polls {} doorbell rings, which is the limit; close "
                                     "another context",
                                     device_->config().name, index, transport::Doorbells::kMaxRings));
    }
    if (ran) continue;
    end_doorbells(*device_, id_, index, std::make_shared<Rings>(doorbells_.release()));
    return ran;
  }
  return {};
}

Result<SessionDoorbells::Ring> DeviceSession::take_doorbell(uint32_t engine, std::unique_lock<std::mutex>& lock) {
  if (const auto ring = doorbells_.take(engine)) return *ring;
  lock.unlock();
  auto memory = allocator_->allocate(doorbells_.large_bytes());
  lock = device_->runner().lock();
  if (!memory) return std::unexpected(memory.error());
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  // Another thread may have added the ring meanwhile, or a queue pair has gone.
  if (const auto ring = doorbells_.take(engine)) return *ring;
  return add_large_ring(engine, std::move(*memory), 0);
}

Result<SessionDoorbells::Ring> DeviceSession::take_doorbell(uint32_t engine, bool large) {
  if (const auto ring = doorbells_.take(engine, large)) return *ring;
  return fail(EINVAL, fmt::format("the session has no place on the {} doorbell ring of engine {}",
                                  large ? "large" : "small", engine));
}

Result<void> DeviceSession::attach_large(const SessionState& as) {
  for (uint32_t engine = 0; engine < device_->engines(); ++engine) {
    if (as.doorbells[engine].size() < 2) continue;
    auto memory = allocator_->allocate(doorbells_.large_bytes());
    if (!memory) return std::unexpected(memory.error());
    const auto lock = device_->runner().lock();
    if (auto added = add_large_ring(engine, std::move(*memory), as.doorbells[engine][1]); !added) {
      return std::unexpected(added.error());
    }
  }
  return {};
}

SessionState DeviceSession::state() const {
  SessionState state{.doorbells = {}, .traffic = traffic()};
  const auto lock = device_->runner().lock();
  for (uint32_t index = 0; index < device_->engines(); ++index) {
    state.doorbells.push_back(device_->engine(index).doorbell_positions(id_));
  }
  return state;
}

Result<SessionDoorbells::Ring> DeviceSession::add_large_ring(uint32_t engine, std::unique_ptr<QueueMemory> memory,
                                                             uint32_t position) {
  const auto large = doorbells_.add_large(engine, std::move(memory));
  const auto work = [reader = large.reader(position), id = id_](transport::Engine& e) { e.add_doorbells(reader, id); };
  if (auto ran = device_->runner().run(engine, work); !ran) {
    doorbells_.remove_large(engine);
    return std::unexpected(ran.error());
  }
  return large;
}

transport::Traffic DeviceSession::traffic() const {
  transport::Traffic sum = earlier_;
  for (uint32_t index = 0; index < engine_clients_.size(); ++index) {
    const auto& [number, before] = engine_clients_[index];
    sum += device_->runner().engine(index).traffic().of(number);
    sum -= before;
  }
  return sum;
}

void DeviceSession::destroy(DeviceSession* session) {
  const std::shared_ptr<Device> device = session->device_;
  const auto lock = device->runner().lock();
  device->events().remove_listener(*session->events_);
  device->objects().give_back_session();
  end_doorbells(*device, session->id_, device->engines(), std::make_shared<Rings>(session->doorbells_.release()));
  delete session;
}

Result<void> DeviceSession::check_owner(const void* object, const DeviceSession* owner, const char* what) const {
  if (object == nullptr) return fail(EINVAL, fmt::format("a {} is missing", what));
  if (owner == this) return {};
  return fail(EINVAL, fmt::format("the {} belongs to another context; create all objects from one Context", what));
}

Result<std::shared_ptr<CqChannel>> DeviceSession::create_channel() {
  auto pipe = EventPipe::create();
  if (!pipe) return std::unexpected(pipe.error());
  return create_channel(std::move(*pipe));
}

std::shared_ptr<CqChannel> DeviceSession::create_channel(EventPipe as) {
  return std::make_shared<CqChannel>(shared_from_this(), std::move(as));
}

}  // namespace uroce::control
