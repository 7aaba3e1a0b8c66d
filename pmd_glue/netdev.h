// The kernel's network interface under a port (net_af_packet): what its driver in DPDK neither reports nor sets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <uroce/error.h>

namespace uroce::glue {

/// Errors: the system's.
Result<uint32_t> netdev_mtu(const std::string& interface);
Result<void> set_netdev_mtu(const std::string& interface, uint32_t mtu);
/// Administratively up and with a carrier; nullopt when there is no such interface.
std::optional<bool> netdev_running(const std::string& interface);
/// A socket, the caller's: while it is open the interface receives all multicast frames. Errors: the system's.
Result<int> receive_all_multicast(const std::string& interface);

}  // namespace uroce::glue
