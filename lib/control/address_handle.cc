#include "control/address_handle.h"

#include <cerrno>

#include <fmt/format.h>

#include "control/device_session.h"
#include "transport/qp/state.h"

namespace uroce::control {

Result<std::shared_ptr<AddressHandle>> DeviceSession::create_address_handle(std::shared_ptr<Pd> pd,
                                                                            const AddressVector& av,
                                                                            std::chrono::nanoseconds timeout) {
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
  auto peer = device_->resolve(av, user(), timeout);
  if (!peer) return std::unexpected(peer.error());
  const auto lock = device_->runner().lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  device_->refresh(*peer);
  const transport::AddressHandle handle{.pd = pd->id(),
                                        .route = wire::make_template(peer->route),
                                        .dst_mac = transport::LiveMac(peer->route.dst_mac),
                                        .dgid = av.dgid,
                                        .flow_label = av.flow_label,
                                        .loopback = peer->loopback,
                                        .multicast = av.dgid.is_multicast()};
  auto id = device_->objects().address_handles().add(handle, device_->runner());
  if (!id) return std::unexpected(id.error());
  return std::shared_ptr<AddressHandle>(new AddressHandle(std::move(pd), *id), &AddressHandle::destroy);
}

Result<std::shared_ptr<AddressHandle>> DeviceSession::create_address_handle(std::shared_ptr<Pd> pd,
                                                                            const transport::AddressHandle& as,
                                                                            uint32_t number) {
  const auto lock = device_->runner().lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  if (as.pd != pd->id() || !device_->objects().address_handles().table().add(as, number)) {
    return fail(EINVAL, fmt::format("{} has an address handle {:#x} already, or it is another protection domain's",
                                    device_->config().name, number));
  }
  return std::shared_ptr<AddressHandle>(new AddressHandle(std::move(pd), number), &AddressHandle::destroy);
}

std::optional<transport::AddressHandle> AddressHandle::destination() const {
  Device& device = *pd_->session()->device();
  const auto lock = device.runner().lock();
  return device.objects().address_handles().table().look_up(id_);
}

void AddressHandle::destroy(AddressHandle* handle) {
  Device& device = *handle->pd_->session()->device();
  {
    const auto lock = device.runner().lock();
    device.objects().address_handles().remove(handle->id_, device.runner());
  }
  delete handle;
}

}  // namespace uroce::control
