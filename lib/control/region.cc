#include "control/region.h"

#include <cerrno>

#include <fmt/format.h>

#include "control/session.h"

namespace uroce::control {

Result<std::shared_ptr<Region>> Session::register_memory(std::shared_ptr<Pd> pd, uint64_t address, uint64_t length,
                                                         std::byte* host, AccessFlags access,
                                                         std::shared_ptr<void> backing) {
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  if (length == 0) {
    return fail(EINVAL, fmt::format("the memory region at {} has no bytes; register at least one",
                                    static_cast<const void*>(host)));
  }
  const memory::RegionSpec spec{.pd = pd->id(), .address = address, .length = length, .host = host, .access = access};
  const auto lock = device_->runner_.lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  // The table rounds up to a power of two; the limit is what the setting says.
  if (device_->regions_.used() >= device_->config().max_mr) {
    return fail(ENOMEM, fmt::format("{} has {} memory regions, which is the limit (max_mr); register fewer, larger "
                                    "regions or raise it",
                                    device_->config().name, device_->config().max_mr));
  }
  const auto key = device_->regions_.add(spec);
  if (!key) return std::unexpected(key.error());
  return std::shared_ptr<Region>(new Region(std::move(pd), *key, spec, std::move(backing)), &Region::destroy);
}

Result<void> Region::change(std::shared_ptr<Pd> pd, uint64_t address, uint64_t length, std::byte* host,
                            AccessFlags access, std::shared_ptr<void> backing) {
  const std::shared_ptr<Session> session = pd_->session();
  if (pd->session() != session) {
    return fail(EINVAL, "the protection domain belongs to another context; create all objects from one Context");
  }
  if (length == 0) return fail(EINVAL, "a memory region has at least one byte");
  const memory::RegionSpec spec{.pd = pd->id(), .address = address, .length = length, .host = host, .access = access};
  if (auto ok = memory::RegionTable::check(spec); !ok) return ok;
  Device& device = *session->device();
  {
    const auto lock = device.runner_.lock();
    if (auto alive = device.check_alive(); !alive) return alive;
    device.regions_.suspend(key_);
  }
  if (auto unused = device.runner_.quiesce(); !unused) return unused;
  {
    const auto lock = device.runner_.lock();
    device.regions_.resume(key_, spec);
  }
  spec_ = spec;
  pd_.swap(pd);
  backing_.swap(backing);
  return {};
}

void Region::destroy(Region* region) {
  Device& device = *region->pd_->session()->device();
  // One quiescent point serves all keys removed before it.
  std::vector<Device::Unretired> removed;
  {
    const auto lock = device.runner_.lock();
    device.regions_.remove(region->key_);
    removed.swap(device.unretired_);
    removed.push_back({region->key_, std::move(region->backing_)});
  }
  const bool unused = device.runner_.quiesce().has_value();
  {
    const auto lock = device.runner_.lock();
    for (auto& gone : removed) {
      if (unused) {
        device.regions_.retire(gone.key);
      } else {
        device.unretired_.push_back(std::move(gone));
      }
    }
  }
  delete region;
}

}  // namespace uroce::control
