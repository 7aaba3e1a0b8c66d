#include "control/address_handle.h"

#include <cerrno>

#include <fmt/format.h>

#include "control/session.h"
#include "transport/qp/state.h"

namespace uroce::control {
namespace {

/// One round of all engines serves so many handles: applications make and destroy one per message.
constexpr std::size_t kRetireTogether = 256;

}  // namespace

Result<std::shared_ptr<AddressHandle>> Session::create_address_handle(std::shared_ptr<Pd> pd, const AddressVector& av,
                                                                      std::chrono::nanoseconds patience) {
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  const DeviceConfig& config = device_->config();
  const std::vector<Gid> gids = device_->gids();
  const transport::AttrLimits limits{config.max_path_mtu, gids};
  if (auto ok = transport::check_address(av, limits, "the address vector", transport::Groups::allowed); !ok) {
    return std::unexpected(ok.error());
  }
  auto peer = device_->resolve(av, patience);
  if (!peer) return std::unexpected(peer.error());
  const auto lock = device_->runner_.lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  device_->refresh(*peer);
  const transport::AddressHandle handle{.pd = pd->id(),
                                        .route = wire::make_template(peer->route),
                                        .dst_mac = transport::LiveMac(peer->route.dst_mac),
                                        .dgid = av.dgid,
                                        .flow_label = av.flow_label,
                                        .loopback = peer->loopback,
                                        .multicast = av.dgid.is_multicast()};
  auto id = device_->handles_.add(handle);
  if (!id) {
    device_->retire_handles();
    id = device_->handles_.add(handle);
  }
  if (!id) {
    return fail(ENOMEM, fmt::format("{} has {} address handles; its limit (max_ah) is {}: destroy some", config.name,
                                    device_->handles_.used(), transport::AddressHandleTable::kCapacity));
  }
  return std::shared_ptr<AddressHandle>(new AddressHandle(std::move(pd), *id), &AddressHandle::destroy);
}

void AddressHandle::destroy(AddressHandle* handle) {
  Device& device = *handle->pd_->session()->device();
  {
    const auto lock = device.runner_.lock();
    device.handles_.remove(handle->id_);
    device.unretired_handles_.push_back(handle->id_);
    // Not at every call once that many wait: an engine may not answer for a while.
    if (device.unretired_handles_.size() % kRetireTogether == 0) device.retire_handles();
  }
  delete handle;
}

void Device::retire_handles() {
  for (uint32_t index = 0; index < engines(); ++index) {
    if (!runner_.run(index, [](transport::Engine&) {})) return;
  }
  for (const transport::AddressHandleId id : unretired_handles_) handles_.retire(id);
  unretired_handles_.clear();
}

}  // namespace uroce::control
