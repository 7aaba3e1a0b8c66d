#include "uroced/settings.h"

namespace uroce::daemon {

StackOptions Config::stack_options() const {
  StackOptions out = stack;
  const bool addresses_said = !stack.addresses.empty();
  for (const DeviceSettings& device : devices) {
    if (!addresses_said) out.addresses.push_back(device.addresses);
    PortSettings& port = out.ports.emplace_back();
    port = {.mtu = device.mtu,
            .vlan = device.vlan,
            .gateway = device.gateway,
            .retransmission = device.retransmission,
            .congestion_control = device.congestion_control};
    if (const int ports = device.udp_source_ports.value_or(0); ports != 0)
      port.udp_source_ports = static_cast<uint32_t>(ports);
  }
  return out;
}

}  // namespace uroce::daemon
