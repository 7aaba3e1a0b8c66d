// Frames and buffers of a port, from what its driver says of itself (rte_eth_dev_info_get).
#pragma once

#include <cstdint>

#include <rte_ethdev.h>

namespace uroce::glue {

/// True for hardware, emulated or not, and false for DPDK's virtual devices and for drivers that name no bus.
bool is_card(const rte_eth_dev_info& info);

/// Bytes that the driver counts beside the MTU in a received frame: Ethernet header, VLAN tags, CRC, and its own
/// header (net_virtio). At least those of an Ethernet header with two VLAN tags and the CRC. 64 where the driver says
/// something else by it: net_virtio reports the host's MTU beside its own longest frame.
uint32_t frame_overhead(const rte_eth_dev_info& info);

/// The largest MTU that the driver allows.
uint32_t largest_mtu(const rte_eth_dev_info& info);

/// Bytes that a receive buffer needs so that a card puts each frame into one buffer. Cards use the part of a buffer
/// that is a multiple of 1 KiB, and those of net_e1000_em a power of two.
uint32_t buffer_room(const rte_eth_dev_info& info, uint32_t mtu);

}  // namespace uroce::glue
