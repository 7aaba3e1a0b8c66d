#include "control/device_session.h"

#include <bit>
#include <cerrno>

#include <fmt/format.h>

#include "control/cq_channel.h"
#include "queues/place.h"
#include "transport/engine/doorbells.h"

namespace uroce::control {
namespace {

constexpr uint32_t kAsyncEventsBeyondQps = 1024;

static_assert(kMaxSessions <= transport::Doorbells::kMaxRings, "an engine polls a doorbell ring of each session");

}  // namespace

Result<std::shared_ptr<DeviceSession>> DeviceSession::open(std::shared_ptr<Device> device,
                                                           std::shared_ptr<QueueAllocator> allocator,
                                                           const transport::Owner& owner) {
  if (allocator == nullptr) allocator = std::make_shared<HeapAllocator>();
  auto fd = EventFd::create();
  if (!fd) return std::unexpected(fd.error());
  Device& opened = *device;
  ObjectRegistry& objects = opened.objects();
  // A slot per queue pair, and as many again for doorbells of queue pairs that were destroyed before they were read.
  const uint32_t entries = 2 * std::bit_ceil(opened.config().max_qp);
  auto memory = allocator->allocate(queues::DoorbellPlace::bytes(entries, opened.engines()));
  if (!memory) return std::unexpected(memory.error());
  const auto lock = opened.runner().lock();
  if (auto alive = opened.check_alive(); !alive) return std::unexpected(alive.error());
  const auto id = objects.take_session();
  if (!id) return std::unexpected(id.error());
  auto events = std::make_unique<AsyncEventQueue>(std::move(*fd), opened.config().max_qp + kAsyncEventsBeyondQps);
  auto session = std::unique_ptr<DeviceSession>(
      new DeviceSession(std::move(device), *id, std::move(allocator), std::move(events), std::move(*memory), entries));
  if (auto attached = session->attach(owner); !attached) {
    objects.give_back_session();
    return std::unexpected(attached.error());
  }
  opened.events().add_listener(*session->events_);
  return std::shared_ptr<DeviceSession>(session.release(), &DeviceSession::destroy);
}

DeviceSession::DeviceSession(std::shared_ptr<Device> device, uint32_t id, std::shared_ptr<QueueAllocator> allocator,
                             std::unique_ptr<AsyncEventQueue> events, std::unique_ptr<QueueMemory> doorbells,
                             uint32_t doorbell_entries)
    : device_(std::move(device)),
      id_(id),
      allocator_(std::move(allocator)),
      events_(std::move(events)),
      doorbells_(std::move(doorbells)),
      doorbell_entries_(doorbell_entries) {}

DeviceSession::~DeviceSession() = default;

std::byte* DeviceSession::doorbell_memory(uint32_t engine) const {
  return queues::DoorbellPlace::at(doorbells_->data(), doorbell_entries_, engine);
}

queues::DoorbellPoster DeviceSession::doorbell(uint32_t engine) const {
  return {doorbell_memory(engine), doorbell_entries_};
}

Result<void> DeviceSession::attach(const transport::Owner& owner) {
  for (uint32_t index = 0; index < device_->engines(); ++index) {
    const queues::DoorbellReader reader(doorbell_memory(index), doorbell_entries_);
    bool has_room = true;
    const auto work = [&has_room, reader, id = id_, owner](transport::Engine& engine) {
      has_room = engine.attach_doorbells(reader, id, owner);
    };
    auto ran = device_->runner().run(index, work);
    if (ran && !has_room) {
      ran = fail(ENOMEM, fmt::format("cannot open {}: engine {} polls {} doorbell rings, which is the limit; close "
                                     "another context",
                                     device_->config().name, index, transport::Doorbells::kMaxRings));
    }
    if (ran) continue;
    end(detach(index));
    return ran;
  }
  return {};
}

bool DeviceSession::detach(uint32_t engines) {
  bool detached = true;
  for (uint32_t index = 0; index < engines; ++index) {
    const auto work = [id = id_](transport::Engine& engine) { engine.detach_doorbells(id); };
    detached = device_->runner().run(index, work).has_value() && detached;
  }
  return detached;
}

void DeviceSession::destroy(DeviceSession* session) {
  const std::shared_ptr<Device> device = session->device_;
  const auto lock = device->runner().lock();
  device->events().remove_listener(*session->events_);
  device->objects().give_back_session();
  session->end(session->detach(device->engines()));
  delete session;
}

// An engine that did not reply may still poll the doorbells under this number.
void DeviceSession::end(bool detached) {
  if (detached) {
    device_->objects().session_numbers().give_back(id_);
  } else {
    device_->objects().keep(std::move(doorbells_));
  }
}

Result<void> DeviceSession::check_owner(const void* object, const DeviceSession* owner, const char* what) const {
  if (object == nullptr) return fail(EINVAL, fmt::format("a {} is missing", what));
  if (owner == this) return {};
  return fail(EINVAL, fmt::format("the {} belongs to another context; create all objects from one Context", what));
}

Result<std::shared_ptr<CqChannel>> DeviceSession::create_channel() {
  auto pipe = EventPipe::create();
  if (!pipe) return std::unexpected(pipe.error());
  return std::make_shared<CqChannel>(shared_from_this(), std::move(*pipe));
}

}  // namespace uroce::control
