#include "uroced/settings.h"

#include <fmt/format.h>

#include <algorithm>

#include "pmd_glue/kif/name.h"

namespace uroce::daemon {

namespace {

/// EAL's ports come first.
std::vector<DeviceSettings> in_port_order(std::vector<DeviceSettings> devices) {
  std::ranges::stable_partition(devices, [](const DeviceSettings& device) { return device.interface.empty(); });
  return devices;
}

}  // namespace

std::vector<bool> Config::pings_answered(std::size_t ports) const {
  std::vector<bool> out(ports, answer_pings);
  const std::vector<DeviceSettings> settings = in_port_order(devices);
  for (std::size_t i = 0; i < std::min(ports, settings.size()); ++i) out[i] = answer_pings && settings[i].answer_pings;
  return out;
}

std::vector<std::string> Config::interface_arguments() const {
  std::vector<std::string> out;
  for (const DeviceSettings& device : devices) {
    if (device.interface.empty()) continue;
    out.push_back(fmt::format("--vdev={}{},iface={}", glue::kKernelInterfaceDriver, out.size(), device.interface));
  }
  return out;
}

StackOptions Config::stack_options() const {
  StackOptions out = stack;
  const bool addresses_said = !stack.addresses.empty();
  for (const DeviceSettings& device : in_port_order(devices)) {
    if (!addresses_said) out.addresses.push_back(device.addresses);
    out.ports.push_back(device.port);
  }
  return out;
}

}  // namespace uroce::daemon
