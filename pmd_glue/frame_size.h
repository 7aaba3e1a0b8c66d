// Sizes of frames, and the Ethernet MTU that each path MTU needs.
#pragma once

#include <cstdint>
#include <optional>

#include <uroce/types.h>

#include "settings/mtu_range.h"
#include "wire/headers.h"

namespace uroce::glue {

/// IPv6, UDP, BTH, RETH with immediate data (the largest headers in front of payload), ICRC.
inline constexpr uint32_t kIpOverhead = 40 + 8 + 12 + 16 + 4 + 4;
/// Ethernet with one 802.1Q tag.
inline constexpr uint32_t kEtherOverhead = 14 + 4;

/// The Ethernet MTU that path MTU 4096 needs, rounded up as administrators write it.
inline constexpr uint32_t kFullMtu = 4200;
static_assert(kFullMtu >= 4096 + kIpOverhead);
static_assert(settings::kLeastMtu == 256 + kIpOverhead);

inline constexpr uint32_t kMemifBuffer = 4352;
static_assert(kMemifBuffer >= kFullMtu + kEtherOverhead);
inline constexpr uint32_t kMemifDefaultBuffer = 2048;
inline constexpr uint32_t kAfPacketFrame = 8192;
inline constexpr uint32_t kAfPacketBlock = 65536;
inline constexpr uint32_t kAfPacketDefaultFrame = 2048;
/// Most bytes that the kernel puts before a received frame in its slot: struct tpacket2_hdr and alignment.
inline constexpr uint32_t kAfPacketHeader = 96;

/// net_af_xdp gives each buffer at most one page. In front of the frame lie the driver's headers (struct
/// rte_mempool_objhdr, struct rte_mbuf, the headroom) and the kernel's headroom; behind it DPDK's pool adds a cache
/// line where that spreads buffers over more memory channels.
inline constexpr uint32_t kAfXdpPage = 4096;
inline constexpr uint32_t kAfXdpBufferHeaders = 64 + 128 + 128;
inline constexpr uint32_t kAfXdpKernelHeadroom = 256;
inline constexpr uint32_t kAfXdpLargestMtu =
    kAfXdpPage - kAfXdpBufferHeaders - kAfXdpKernelHeadroom - 64 - kEtherOverhead;
/// Buffers that wait in the kernel for each queue's frames.
inline constexpr uint32_t kAfXdpFill = 2048;

/// The largest path MTU whose packets fit an Ethernet MTU; nullopt below 256.
constexpr std::optional<Mtu> path_mtu_for(uint32_t ethernet_mtu) {
  std::optional<Mtu> best;
  for (uint8_t code = 1; code <= 5; ++code) {
    if (mtu_bytes(static_cast<Mtu>(code)) + kIpOverhead <= ethernet_mtu) best = static_cast<Mtu>(code);
  }
  return best;
}
static_assert(path_mtu_for(1500) == Mtu::mtu1024);
static_assert(path_mtu_for(kFullMtu) == Mtu::mtu4096);
static_assert(!path_mtu_for(300));

}  // namespace uroce::glue
