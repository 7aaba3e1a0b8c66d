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
  if (auto room = device_->check_key_room(); !room) return std::unexpected(room.error());
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
    if (device.regions_.windows(key_) != 0) {
      return fail(EBUSY, "memory windows are bound to the memory region; unbind or destroy them first");
    }
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
  region->pd_->session()->device()->end_key(region->key_, std::move(region->backing_));
  delete region;
}

Result<void> Device::check_key_room() const {
  if (auto alive = check_alive(); !alive) return alive;
  // The table rounds up to a power of two; the limit is what the setting says.
  if (regions_.used() < config_.max_mr) return {};
  return fail(ENOMEM, fmt::format("{} has {} memory regions and windows, which is the limit (max_mr); register fewer, "
                                  "larger regions or raise it",
                                  config_.name, config_.max_mr));
}

void Device::end_key(memory::Key key, std::shared_ptr<void> backing) {
  // One quiescent point serves all keys removed before it.
  std::vector<Unretired> removed;
  {
    const auto lock = runner_.lock();
    regions_.remove(key);
    removed.swap(unretired_);
    removed.push_back({key, std::move(backing)});
  }
  const bool unused = runner_.quiesce().has_value();
  const auto lock = runner_.lock();
  for (auto& gone : removed) {
    if (unused) {
      regions_.retire(gone.key);
    } else {
      unretired_.push_back(std::move(gone));
    }
  }
}

}  // namespace uroce::control
