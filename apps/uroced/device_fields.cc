// The keys of [[device]].
#include <fmt/format.h>
#include <net/if.h>

#include "net/address.h"
#include "settings/table.h"
#include "uroced/config_fields.h"
#include "uroced/field_kinds.h"

namespace uroce::daemon {

namespace {

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

/// Reads strings that `parse` takes into `to`, separated by commas; a single empty one is none. `kind`: the words for
/// them in errors.
Read read_list(const toml::node& node, std::string_view kind, auto parse, std::optional<std::string>& to) {
  const auto words = strings_of(node, kind);
  if (!words) return std::unexpected(words.error());
  std::string list;
  for (const auto& [word, where] : *words) {
    if (word.empty() && words->size() == 1) continue;
    if (const auto one = parse(word); !one) return refuse(one.error().text, where);
    list += (list.empty() ? "" : ",") + word;
  }
  to = list;
  return {};
}

Read read_gateway(const toml::node& node, DeviceSettings& device) {
  return read_list(node, "an address as a string like \"192.0.2.254\", or an array of them", net::parse_address,
                   device.port.gateway);
}

Read read_allow(const toml::node& node, DeviceSettings& device) {
  return read_list(node, "an array of strings like [\"192.0.2.0/24\", \"2001:db8::1\"]", net::parse_prefixes,
                   device.port.allow);
}

/// A setting of the port. One that [engines] has as well is unset unless the table says it.
Field<DeviceSettings> port_field(const settings::Row& row) {
  settings::Setting setting = row.setting;
  const bool is_engines = setting.table == "engines";
  const bool is_whole = setting.kind == settings::Kind::whole;
  if (is_engines) {
    setting.table = "device";
    setting.text = "As in [engines], for this port alone.";
    setting.by_default = "that of [engines]";
    if (is_whole) setting.zero = setting.by_default;
    setting.live = false;
    setting.option = {};  // it sets the key of [engines]
  }
  const auto set = [access = row.port, is_engines](DeviceSettings& device, const settings::Value& value) {
    const bool takes_engines = is_engines && value == settings::Value(int64_t{0});
    access.set(device.port, takes_engines ? settings::Value() : value);
  };
  const auto get = [access = row.port](const DeviceSettings& device) { return access.get(device.port); };
  auto made = field<DeviceSettings>(setting, {get, set}, is_whole ? "0" : is_engines ? "that of [engines]" : "\"\"");
  if (setting.key == "gateway") made.read = read_gateway;
  if (setting.key == "allow") made.read = read_allow;
  return made;
}

std::vector<Field<DeviceSettings>> make_fields() {
  std::vector<Field<DeviceSettings>> fields{
      field_read_by<DeviceSettings>(
          {.table = "device",
           .key = "interface",
           .values = "name of a network interface",
           .by_default = "none, for a port of EAL's",
           .example = "\"eth0\"",
           .text =
               "An interface that the kernel keeps, as the device's port. No EAL argument names it. Such ports come "
               "after EAL's."},
          read_interface, [](const DeviceSettings& d) { return settings::in_quotes(d.interface); }),
      field_read_by<DeviceSettings>(
          {.table = "device",
           .key = "addresses",
           .live = true,
           .values = "addresses with prefix length, or \"kernel\"",
           .by_default = "\"kernel\" with `interface`, but not with `vlan` or `gateway`; else 10.117.0.(1 + port)/24",
           .example = "[\"192.0.2.1/24\", \"2001:db8::1/64\"]",
           .text = "Addresses, IPv4 and IPv6. Such a port also has its IPv6 link-local address. \"kernel\" takes the "
                   "addresses, neighbours and routes that the kernel has for the port's network interface, as they "
                   "change. A running daemon does not change from or to \"kernel\"."},
          read_addresses, [](const DeviceSettings& d) { return settings::in_quotes(d.addresses); }),
  };
  fields.back().copy = [](const DeviceSettings& from, DeviceSettings& to) { to.addresses = from.addresses; };
  for (const settings::Row& row : settings::rows()) {
    if (row.port) fields.push_back(port_field(row));
  }
  fields.push_back(field<&DeviceSettings::answer_pings>(
      {.table = "device",
       .key = "answer_pings",
       .example = "false",
       .text = "Whether this device answers pings, where daemon.answer_pings is true."}));
  return fields;
}

}  // namespace

std::span<const Field<DeviceSettings>> device_fields() {
  static const std::vector<Field<DeviceSettings>> kFields = make_fields();
  return kFields;
}

}  // namespace uroce::daemon
