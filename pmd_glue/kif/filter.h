// The filter of a port's packet socket: which frames the kernel copies to it.
#pragma once

#include <cstdint>
#include <vector>

#include <linux/filter.h>

namespace uroce::glue::kif {

/// A classic BPF program that lets RoCE (UDP port 4791), ARP, ICMP, IGMP and ICMPv6 pass, and fragments of UDP over
/// IPv4 not. With `vlan`, frames of that 802.1Q id alone; without, those that have no tag or a tag of id 0. The kernel
/// keeps tags apart from frames.
std::vector<sock_filter> make_filter(uint16_t vlan);

}  // namespace uroce::glue::kif
