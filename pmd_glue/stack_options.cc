#include "pmd_glue/stack_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <span>

#include "base/comma_list.h"
#include "faults/language.h"
#include "pmd_glue/fault_desk.h"
#include "settings/table.h"

namespace uroce::glue {

namespace {

Result<std::vector<Gid>> parse_gateways(const std::string& text) {
  std::vector<Gid> out;
  for (const std::string_view item : items_of_list(text)) {
    auto gid = net::parse_address(item);
    if (!gid) return fail(EINVAL, fmt::format("gateway: {}", gid.error().text));
    out.push_back(*gid);
  }
  return out;
}

}  // namespace

std::string device_name(std::size_t index) { return fmt::format("uroce{}", index); }

Result<void> check_options(const StackOptions& options) {
  for (std::size_t i = 0; i <= std::max(options.ports.size(), options.addresses.size()); ++i) {
    const StackOptions of_port = options_of_port(options, i);
    if (has_kernel_addresses(options, i) && of_port.vlan != 0) {
      return fail(EINVAL, fmt::format("vlan is {}, but port {} has the kernel's addresses, which are for the interface "
                                      "as it is; name the VLAN's own interface, or list addresses",
                                      of_port.vlan, i));
    }
    if (has_kernel_addresses(options, i) && i < options.ports.size() &&
        !options.ports[i].gateway.value_or("").empty()) {
      return fail(EINVAL, fmt::format("gateway is {}, but port {} has the kernel's addresses and routes; leave it out",
                                      *options.ports[i].gateway, i));
    }
    if (auto ok = settings::check(of_port); !ok) return ok;
    if (auto gateways = parse_gateways(of_port.gateway); !gateways) return std::unexpected(gateways.error());
    if (auto peers = net::parse_prefixes(of_port.allow); !peers)
      return fail(EINVAL, fmt::format("allow: {}", peers.error().text));
  }
  if (options.faults.empty()) return {};
  const auto text = read_fault_file(options.faults);
  if (!text) return std::unexpected(text.error());
  if (auto rules = faults::parse_rules(*text, options.faults); !rules) return std::unexpected(rules.error());
  return {};
}

std::string icrc_summary() {
  const auto names = settings::icrc_choices();
  return fmt::format("ICRC: {} (of {})", names[1], fmt::join(std::span(names).subspan(1), ", "));
}

StackOptions options_of_port(const StackOptions& options, std::size_t index) {
  return index < options.ports.size() ? settings::of_port(options, options.ports[index]) : options;
}

bool has_kernel_addresses(const StackOptions& options, std::size_t index) {
  return index < options.addresses.size() && options.addresses[index] == StackOptions::kKernelAddresses;
}

Result<net::AddressTable> address_table(const StackOptions& options, std::size_t index, const EthAddr& mac) {
  std::vector<net::InterfaceAddress> addresses;
  if (index < options.addresses.size() && !options.addresses[index].empty()) {
    auto given = net::parse_interface_addresses(options.addresses[index]);
    if (!given) return fail(given.error().code, fmt::format("addresses of port {}: {}", index, given.error().text));
    addresses = std::move(*given);
  } else {
    constexpr uint32_t kDefaultNet = 10u << 24 | 117u << 16;
    addresses.push_back({Gid::from_ipv4(kDefaultNet + 1 + static_cast<uint32_t>(index)), 24});
  }
  const Gid link_local = net::link_local(mac);
  if (std::ranges::none_of(addresses, [&](const auto& a) { return a.gid == link_local; })) {
    addresses.push_back({link_local, 64});
  }
  auto gateways = parse_gateways(options.gateway);
  if (!gateways) return std::unexpected(gateways.error());
  std::erase_if(*gateways, [&](const Gid& gateway) {
    return std::ranges::none_of(addresses, [&](const auto& a) { return net::same_subnet(a.gid, gateway, a.prefix); });
  });
  return net::AddressTable(std::move(addresses), *gateways);
}

}  // namespace uroce::glue
