// Programs that the kernel runs for a port's packet sockets: which frames it copies, and to which of them.
#pragma once

#include <cstdint>
#include <vector>

#include <linux/filter.h>

namespace uroce::glue::kif {

/// A classic BPF program that lets RoCE (UDP port 4791), ARP, ICMP, IGMP and ICMPv6 pass, and fragments of UDP over
/// IPv4 not. With `vlan`, frames of that 802.1Q id alone; without, those that have no tag or a tag of id 0. The kernel
/// keeps tags apart from frames.
std::vector<sock_filter> make_filter(uint16_t vlan);

/// A classic BPF program that says which of `engines` engines a frame is for, by the low bits of its queue pair's
/// number; 0 for other frames. Of a super-frame the first part counts.
std::vector<sock_filter> make_spread(uint32_t engines);

}  // namespace uroce::glue::kif
