// The kernel's network interface under a port (net_uroce_kif; net_af_packet and net_af_xdp, whose drivers neither
// report nor set these values).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <uroce/error.h>
#include <uroce/types.h>

namespace uroce::glue {

/// Errors: the system's.
Result<uint32_t> netdev_mtu(const std::string& interface);
/// EINVAL where it is no Ethernet interface.
Result<EthAddr> netdev_mac(const std::string& interface);
/// The name of the interface with that index; empty where there is none.
std::string netdev_name(unsigned index);
Result<void> set_netdev_mtu(const std::string& interface, uint32_t mtu);
/// True when the interface is administratively up and has a carrier; nullopt when it does not exist. The kernel first
/// handles changes of the carrier that wait.
std::optional<bool> netdev_running(const std::string& interface);
/// Whether it leads nowhere but to this host. False when it does not exist.
bool netdev_is_loopback(const std::string& interface);
/// The queues by which an interface receives.
struct NetdevQueues {
  uint32_t combined = 1;  ///< those that send and receive
  uint32_t receive = 1;   ///< all that receive
};
/// One queue where the interface does not tell (ethtool -l).
NetdevQueues netdev_queues(const std::string& interface);
/// A socket that the caller owns. While it is open, the interface receives all multicast frames. Errors: the system's.
Result<int> receive_all_multicast(const std::string& interface);

}  // namespace uroce::glue
