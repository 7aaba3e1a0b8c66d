// A stack's addresses: those that its options list, or those that the kernel has for a port's interface.
#include <fmt/format.h>

#include <cerrno>

#include "base/secret.h"
#include "pmd_glue/stack_impl.h"
#include "pmd_glue/stack_options.h"

namespace uroce {

using namespace glue;

namespace {

/// An interface that the kernel keeps has the kernel's addresses unless others are listed. A tag or a gateway goes with
/// addresses of one's own.
bool takes_kernel_addresses(const Port& port, const StackOptions& options, std::size_t index) {
  if (has_kernel_addresses(options, index)) return true;
  const bool listed = index < options.addresses.size() && !options.addresses[index].empty();
  const StackOptions own = options_of_port(options, index);
  return port.is_kernel_interface() && !listed && own.vlan == 0 && own.gateway.empty();
}

}  // namespace

Result<std::vector<Gid>> Stack::Impl::make_neighbourhood(Unit& unit, std::size_t index, const StackOptions& options) {
  Port& port = *unit.port;
  const bool kernels = takes_kernel_addresses(port, options, index);
  unit.kernel = std::make_unique<KernelStack>(port, kernels, static_cast<uint32_t>(options.vlan));
  if (inherited_ != nullptr) unit.kernel->begin_inheriting(*inherited_, device_name(index));
  std::vector<Gid> gids;
  if (kernels) {
    auto made = KernelNeighbourhood::open(port, service_->waker(), *clock_);
    if (!made) return std::unexpected(made.error());
    auto free = unit.kernel->claim((*made)->addresses());
    if (!free) return std::unexpected(free.error());
    gids = std::move(*free);
    unit.kernel_addresses = made->get();
    unit.neighbourhood = std::move(*made);
  } else if (port.carries_roce_alone()) {
    return fail(EINVAL,
                fmt::format("port {}: a UDP socket has the kernel's addresses alone; leave device.addresses, vlan "
                            "and gateway out, or give the program CAP_NET_RAW",
                            port.name()));
  } else {
    auto table = address_table(options, index, port.mac());
    if (!table) return std::unexpected(table.error());
    auto free = unit.kernel->claim(table->gids());
    if (!free) return std::unexpected(free.error());
    gids = std::move(*free);
    table->keep(gids);
    auto made =
        std::make_unique<OwnNeighbourhood>(port, static_cast<uint16_t>(options.vlan), std::move(*table), engines(),
                                           service_->waker(), *clock_, Secret::fresh().plain_seed("net"));
    made->set_sender(&workers_[0]->waker());
    unit.own_addresses = made.get();
    unit.neighbourhood = std::move(made);
  }
  gids = unit.kernel->set_addresses(gids);
  unit.kernel->end_inheriting();
  return gids;
}

void Stack::Impl::join_neighbourhood(Unit& unit) {
  control::Device* device = unit.device.get();
  unit.neighbourhood->set_redirect([device](const transport::NextHop& next_hop) { return device->redirect(next_hop); });
  if (unit.kernel_addresses == nullptr) return;
  unit.kernel_addresses->set_addresses_changed([device, kernel = unit.kernel.get()](std::span<const Gid> gids) {
    return device->try_set_gids(kernel->set_addresses(gids));  // the kernel is silent before a peer learns of them
  });
}

Result<std::vector<net::AddressTable>> Stack::Impl::claim_addresses(const StackOptions& options) const {
  std::vector<net::AddressTable> tables;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (takes_kernel_addresses(*units[i].port, options, i) != (units[i].kernel_addresses != nullptr)) {
      return fail(EINVAL,
                  fmt::format("port {}: its addresses change from the kernel's to others, or back, only at a new "
                              "start; start again, or leave device.addresses as it was",
                              units[i].port->name()));
    }
    if (units[i].own_addresses == nullptr) {
      tables.push_back({{}, {}});
      continue;
    }
    auto table = address_table(options_of_port(options, i), i, units[i].port->mac());
    if (!table) return std::unexpected(table.error());
    const auto free = units[i].kernel->claim(table->gids());
    if (!free) return std::unexpected(free.error());
    table->keep(*free);
    tables.push_back(std::move(*table));
  }
  return tables;
}

Result<void> Stack::Impl::set_addresses(const StackOptions& options) {
  if (auto ok = check_options(options); !ok) return ok;
  auto tables = claim_addresses(options);
  if (!tables) {
    for (const Unit& unit : units) unit.kernel->unclaim();
    return std::unexpected(tables.error());
  }
  Result<void> all;
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (units[i].own_addresses == nullptr) continue;
    const std::vector<Gid> gids = units[i].kernel->set_addresses((*tables)[i].gids());
    units[i].own_addresses->set_table(std::move((*tables)[i]));
    if (auto done = units[i].device->set_gids(gids); !done) all = done;
  }
  return all;
}

}  // namespace uroce
