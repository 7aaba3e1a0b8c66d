#include "pmd_glue/card.h"

#include <algorithm>
#include <bit>
#include <string_view>

#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_ether.h>

namespace uroce::glue {

namespace {

constexpr uint32_t kVlanTag = 4;
constexpr uint32_t kLeastOverhead = RTE_ETHER_HDR_LEN + 2 * kVlanTag + RTE_ETHER_CRC_LEN;
constexpr uint32_t kMostOverhead = 64;
constexpr uint32_t kBufferUnit = 1024;
constexpr uint32_t kLeastRoom = 2048;

}  // namespace

bool is_card(const rte_eth_dev_info& info) {
  const rte_bus* bus = info.device == nullptr ? nullptr : rte_dev_bus(info.device);
  return bus != nullptr && std::string_view(rte_bus_name(bus)) != "vdev";
}

uint32_t frame_overhead(const rte_eth_dev_info& info) {
  const uint32_t said = info.max_rx_pktlen > info.max_mtu ? info.max_rx_pktlen - info.max_mtu : 0;
  return said > kMostOverhead ? kMostOverhead : std::max(said, kLeastOverhead);
}

uint32_t largest_mtu(const rte_eth_dev_info& info) {
  constexpr uint32_t kHeader = RTE_ETHER_HDR_LEN + RTE_ETHER_CRC_LEN;
  const uint32_t by_frame = info.max_rx_pktlen > kHeader ? info.max_rx_pktlen - kHeader : 0;
  return std::min<uint32_t>(by_frame, info.max_mtu);
}

uint32_t buffer_room(const rte_eth_dev_info& info, uint32_t mtu) {
  const uint32_t least = std::max({mtu + frame_overhead(info), info.min_rx_bufsize, kLeastRoom});
  const bool power_of_two = std::string_view(info.driver_name) == "net_e1000_em";
  return power_of_two ? std::bit_ceil(least) : (least + kBufferUnit - 1) / kBufferUnit * kBufferUnit;
}

}  // namespace uroce::glue
