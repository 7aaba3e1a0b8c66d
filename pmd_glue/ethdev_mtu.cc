// The MTU of an ethdev port. Drivers report it badly in DPDK 22.11: net_memif and net_af_packet claim 1518 bytes and
// mean something else, net_ring has no limit.
#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_ethdev.h>

#include <algorithm>
#include <charconv>

#include "pmd_glue/card.h"
#include "pmd_glue/eal_args.h"
#include "pmd_glue/ethdev_port.h"
#include "pmd_glue/frame_size.h"
#include "pmd_glue/netdev.h"

namespace uroce::glue {

namespace {

uint32_t number_or(std::string_view text, uint32_t otherwise) {
  uint32_t value = otherwise;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// The limit of a port, and how to raise it.
struct Limit {
  uint32_t mtu = 0;
  std::string advice;
};

Limit memif_limit(std::string_view devargs, uint32_t asked) {
  const uint32_t buffer = number_or(device_argument(devargs, "bsize"), kMemifDefaultBuffer);
  return {
      std::max(buffer, kEtherOverhead) - kEtherOverhead,
      fmt::format("its buffers hold {} bytes; give bsize={} in --vdev at both ends", buffer, asked + kEtherOverhead)};
}

Limit af_packet_slot_limit(std::string_view devargs, uint32_t asked) {
  const uint32_t slot = number_or(device_argument(devargs, "framesz"), kAfPacketDefaultFrame);
  uint32_t needed = kAfPacketDefaultFrame;
  while (needed < asked + kEtherOverhead + kAfPacketHeader) needed *= 2;
  return {std::max(slot, kEtherOverhead + kAfPacketHeader) - kEtherOverhead - kAfPacketHeader,
          fmt::format("its ring holds frames of {} bytes; give framesz={},blocksz={} in --vdev", slot, needed,
                      std::max(needed, kAfPacketBlock))};
}

}  // namespace

Result<void> EthdevPort::choose_mtu(const PortOptions& options) {
  const auto checked = asked_mtu(options);
  if (!checked) return std::unexpected(checked.error());
  const uint32_t asked = *checked;
  if (driver_ == "net_af_xdp") return choose_xdp_mtu(asked);
  const uint32_t wanted = asked != 0 ? asked : kFullMtu;
  rte_eth_dev_info info{};
  if (const int error = rte_eth_dev_info_get(id_, &info); error != 0) {
    return fail_port(error, fmt::format("does not say what it can: {}", rte_strerror(-error)));
  }
  Limit limit;
  if (driver_ == "net_memif") {
    limit = memif_limit(devargs_, wanted);
  } else if (driver_ == "net_af_packet") {
    limit = af_packet_slot_limit(devargs_, wanted);
    const std::string interface = netdev();
    if (asked != 0 && asked <= limit.mtu) {
      if (auto ok = set_netdev_mtu(interface, asked); !ok) {
        return fail_port(ok.error().code,
                         fmt::format("cannot have mtu {}: interface {} says '{}'; choose a smaller mtu", asked,
                                     interface, ok.error().text));
      }
    } else if (asked == 0) {
      // A host's interface keeps the MTU that its administrator gave it.
      const auto own = netdev_mtu(interface);
      if (own && *own < limit.mtu) limit.mtu = *own;
    }
    room_ = number_or(device_argument(devargs_, "framesz"), kAfPacketDefaultFrame);  // the driver copies whole slots
  } else if (driver_ == "net_ring" || driver_ == "net_null" || driver_ == "net_pcap") {
    limit = {settings::kLargestMtu, ""};
  } else {
    limit = {largest_mtu(info), "its driver supports no more; use another port"};
    uint16_t own = RTE_ETHER_MTU;
    rte_eth_dev_get_mtu(id_, &own);
    // A card's network may carry less than the card can. net_virtio begins with the MTU that its host announces.
    set_mtu_ = is_card(info) || asked != 0 || limit.mtu >= kFullMtu;
    if (asked == 0 && (is_card(info) || !set_mtu_)) limit.mtu = std::min<uint32_t>(limit.mtu, own);
    if (asked != 0 && asked < info.min_mtu) {
      return fail_port(EINVAL, fmt::format("cannot have mtu {}; its driver's least is {}", asked, info.min_mtu));
    }
    if (is_card(info)) room_ = buffer_room(info, std::min(wanted, limit.mtu));
  }
  if (asked > limit.mtu) {
    return fail_port(EINVAL, fmt::format("cannot have mtu {}; its limit is {}: {}, or set mtu to {} or less", asked,
                                         limit.mtu, limit.advice, limit.mtu));
  }
  return choose_path_mtu(std::min(wanted, limit.mtu));
}

}  // namespace uroce::glue
