#include "control/region.h"

#include <cerrno>

#include <fmt/format.h>

#include "control/device_session.h"

namespace uroce::control {

Result<std::shared_ptr<Pd>> DeviceSession::create_pd(uint32_t number) {
  const auto lock = device_->runner().lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  NumberPool& numbers = device_->objects().pds();
  if (number == 0) return std::make_shared<Pd>(shared_from_this(), numbers.take());
  if (numbers.take(number)) return std::make_shared<Pd>(shared_from_this(), number);
  return fail(EINVAL, fmt::format("{} has a protection domain {} already", device_->config().name, number));
}

Pd::~Pd() { session_->device()->objects().pds().give_back(id_); }

Result<std::shared_ptr<Region>> DeviceSession::register_memory(std::shared_ptr<Pd> pd, uint64_t address,
                                                               uint64_t length, std::byte* host, AccessFlags access,
                                                               std::shared_ptr<void> backing,
                                                               const memory::KeyState* as) {
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  const memory::RegionSpec spec{.pd = pd->id(), .address = address, .length = length, .host = host, .access = access};
  const auto lock = device_->runner().lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  // The region of QP1 must not be where the daemon before has one of a client.
  const bool own = user() == transport::Owner::kNobody && access == AccessFlags(Access::local_write);
  const auto slot = own ? memory::SlotChoice::first : memory::SlotChoice::secret;
  const auto key = device_->objects().keys().add(spec, as, slot);
  if (!key) return std::unexpected(key.error());
  return std::shared_ptr<Region>(new Region(std::move(pd), *key, spec, std::move(backing)), &Region::destroy);
}

Result<std::shared_ptr<Region>> DeviceSession::create_null_region(std::shared_ptr<Pd> pd, const memory::KeyState* as) {
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  const auto lock = device_->runner().lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  const auto key = device_->objects().keys().add_null(pd->id(), as);
  if (!key) return std::unexpected(key.error());
  const memory::RegionSpec spec{.pd = pd->id(), .access = Access::local_write};
  return std::shared_ptr<Region>(new Region(std::move(pd), *key, spec, nullptr), &Region::destroy);
}

Result<void> Region::change(std::shared_ptr<Pd> pd, uint64_t address, uint64_t length, std::byte* host,
                            AccessFlags access, std::shared_ptr<void> backing) {
  const std::shared_ptr<DeviceSession> session = pd_->session();
  if (pd->session() != session) {
    return fail(EINVAL, "the protection domain belongs to another context; create all objects from one Context");
  }
  const memory::RegionSpec spec{.pd = pd->id(), .address = address, .length = length, .host = host, .access = access};
  if (auto ok = memory::RegionTable::check(spec); !ok) return ok;
  Device& device = *session->device();
  KeyRegistry& keys = device.objects().keys();
  {
    const auto lock = device.runner().lock();
    if (auto alive = device.check_alive(); !alive) return alive;
    if (keys.bound_windows(key_) != 0) {
      return fail(EBUSY, fmt::format("{} memory windows are bound to memory region {:#x}; unbind or destroy them first",
                                     keys.bound_windows(key_), key_));
    }
    keys.suspend(key_);
  }
  if (auto unused = device.runner().quiesce(); !unused) return unused;
  {
    const auto lock = device.runner().lock();
    keys.resume(key_, spec);
  }
  spec_ = spec;
  pd_.swap(pd);
  backing_.swap(backing);
  return {};
}

void Region::destroy(Region* region) {
  Device& device = *region->pd_->session()->device();
  device.objects().keys().end(region->key_, std::move(region->backing_), device.runner());
  delete region;
}

}  // namespace uroce::control
