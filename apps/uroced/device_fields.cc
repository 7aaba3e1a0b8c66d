// The keys of [[device]].
#include <fmt/format.h>
#include <net/if.h>

#include "net/address.h"
#include "pmd_glue/frame_size.h"
#include "transport/core/setting_names.h"
#include "uroced/config_fields.h"
#include "uroced/field_kinds.h"

namespace uroce::daemon {

namespace {

/// A number of a port. `meaning_of_0` is the meaning of 0, which is outside the range.
Field<DeviceSettings> port_number(std::string_view name, const Access<DeviceSettings, std::optional<int>>& access,
                                  int least, int most, std::string_view meaning_of_0) {
  return {name, false,
          [=](const toml::node& node, DeviceSettings& target) -> Read {
            const std::string needed = fmt::format("an integer from {} to {}, or 0 for {}", least, most, meaning_of_0);
            if (!node.is_integer()) return wrong_kind(node, needed);
            const int64_t value = node.as_integer()->get();
            if (value != 0 && (value < least || value > most)) return refuse(fmt::format("it must be {}", needed));
            access(target) = static_cast<int>(value);
            return {};
          },
          [=](const DeviceSettings& target) { return fmt::to_string(get(access, target).value_or(0)); }};
}

Read read_addresses(const toml::node& node, DeviceSettings& device) {
  const auto words = strings_of(node, "an array of strings like [\"192.0.2.1/24\", \"2001:db8::1/64\"], or \"kernel\"");
  if (!words) return std::unexpected(words.error());
  device.addresses.clear();
  if (words->size() == 1 && words->front().first == StackOptions::kKernelAddresses) {
    device.addresses = words->front().first;
    return {};
  }
  for (const auto& [word, where] : *words) {
    if (word == StackOptions::kKernelAddresses)
      return refuse("\"kernel\" stands alone; leave the addresses out", where);
    if (const auto one = net::parse_interface_address(word); !one) return refuse(one.error().text, where);
    device.addresses += (device.addresses.empty() ? "" : ",") + word;
    if (const auto all = net::parse_interface_addresses(device.addresses); !all) return refuse(all.error().text, where);
  }
  if (device.addresses.empty()) return refuse("it must have at least one address; leave the key out for the default");
  return {};
}

Read read_interface(const toml::node& node, DeviceSettings& device) {
  constexpr std::size_t kMost = IFNAMSIZ - 1;
  if (!node.is_string()) return wrong_kind(node, "the name of a network interface as a string, like \"eth0\"");
  const std::string& name = node.as_string()->get();
  if (name.empty() || name.size() > kMost || name.find_first_of("/:, \t\n") != std::string::npos)
    return refuse(
        fmt::format("it must be the name of a network interface, of 1 to {} characters, as `ip link` lists it", kMost));
  device.interface = name;
  return {};
}

Read read_gateway(const toml::node& node, DeviceSettings& device) {
  const auto words = strings_of(node, "an address as a string like \"192.0.2.254\", or an array of them");
  if (!words) return std::unexpected(words.error());
  std::string gateways;
  for (const auto& [word, where] : *words) {
    if (word.empty() && words->size() == 1) continue;  // none
    if (const auto one = net::parse_address(word); !one) return refuse(one.error().text, where);
    gateways += (gateways.empty() ? "" : ",") + word;
  }
  device.gateway = gateways;
  return {};
}

}  // namespace

std::span<const Field<DeviceSettings>> device_fields() {
  using Number = std::optional<int>;
  static const std::vector<Field<DeviceSettings>> kFields{
      {"interface", false, read_interface, [](const DeviceSettings& d) { return toml_string(d.interface); }},
      {"addresses", true, read_addresses, [](const DeviceSettings& d) { return toml_string(d.addresses); }},
      port_number(
          "mtu", [](DeviceSettings& d) -> Number& { return d.mtu; }, 256 + glue::kIpOverhead, glue::kLargestMtu,
          "the port's own"),
      port_number(
          "vlan", [](DeviceSettings& d) -> Number& { return d.vlan; }, 1, 4094, "untagged frames"),
      {"gateway", true, read_gateway, [](const DeviceSettings& d) { return toml_string(d.gateway.value_or("")); }},
      choice<Retransmission, DeviceSettings, std::optional<Retransmission>>(
          "retransmission", [](DeviceSettings& d) -> std::optional<Retransmission>& { return d.retransmission; },
          all_of(transport::kRetransmissionNames)),
      choice<CongestionAlgorithm, DeviceSettings, std::optional<CongestionAlgorithm>>(
          "congestion_control",
          [](DeviceSettings& d) -> std::optional<CongestionAlgorithm>& { return d.congestion_control; },
          all_of(transport::kCongestionNames)),
      port_number(
          "udp_source_ports", [](DeviceSettings& d) -> Number& { return d.udp_source_ports; }, 1, 64,
          "that of [engines]"),
      truth<DeviceSettings>(
          "answer_pings", [](DeviceSettings& d) -> bool& { return d.answer_pings; }, false),
  };
  return kFields;
}

}  // namespace uroce::daemon
