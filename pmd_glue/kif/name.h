// How a port on an interface of the kernel is named among EAL's arguments: --vdev net_uroce_kif0,iface=eth0.
// With super_frames=no as well, frames leave one by one, to compare or to avoid a fault of the kernel or a card.
// net_uroce_udp0 takes a UDP socket, which needs no right; net_uroce_kif0 does so where it may open no packet socket.
#pragma once

#include <string>
#include <string_view>

namespace uroce::glue {

inline constexpr std::string_view kKernelInterfaceDriver = "net_uroce_kif";
inline constexpr std::string_view kUdpDriver = "net_uroce_udp";

/// A port on an interface that the kernel keeps, without a driver of DPDK's.
struct KernelInterface {
  std::string port;       ///< "net_uroce_kif0"
  std::string interface;  ///< "eth0"
  bool super_frames = true;
  bool udp = false;  ///< by a UDP socket in any case
};

}  // namespace uroce::glue
