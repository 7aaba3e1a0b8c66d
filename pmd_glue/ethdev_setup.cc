// An ethdev port's set-up: what its driver offers decides what is asked of it.
#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "pmd_glue/card.h"
#include "pmd_glue/eal_args.h"
#include "pmd_glue/ethdev_port.h"
#include "pmd_glue/frame_size.h"
#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/pci.h"

namespace uroce::glue {

namespace {

constexpr uint64_t kRss =
    RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;

// Software ports report a speed that is a constant in their driver.
uint32_t speed_of(const rte_eth_dev_info& info) {
  uint32_t best = 0;
  for (const uint32_t mbps :
       {10u, 100u, 1000u, 2500u, 5000u, 10000u, 20000u, 25000u, 40000u, 50000u, 56000u, 100000u, 200000u, 400000u}) {
    if ((info.speed_capa & rte_eth_speed_bitflag(mbps, RTE_ETH_LINK_FULL_DUPLEX)) != 0) best = mbps;
  }
  constexpr uint32_t kUnknown = 100000;
  return !is_card(info) || best == 0 ? kUnknown : best;
}

}  // namespace

Result<std::unique_ptr<Port>> EthdevPort::open(uint16_t id, const PortOptions& options) {
  std::unique_ptr<EthdevPort> port(new EthdevPort(id));
  if (auto ok = port->set_up(options); !ok) return std::unexpected(ok.error());
  return port;
}

Result<void> EthdevPort::set_up(const PortOptions& options) {
  rte_eth_dev_info info{};
  char name[RTE_ETH_NAME_MAX_LEN] = "";
  if (rte_eth_dev_get_name_by_port(id_, name) != 0 || rte_eth_dev_info_get(id_, &info) != 0) {
    return fail(ENODEV, fmt::format("unknown port {}", id_));
  }
  name_ = name;
  opened_ = true;
  driver_ = info.driver_name;
  if (const rte_devargs* devargs = rte_dev_devargs(info.device); devargs != nullptr && devargs->args != nullptr) {
    devargs_ = devargs->args;
  }
  speed_mbps_ = speed_of(info);
  interface_index_ = info.if_index;
  socket_ = rte_eth_dev_socket_id(id_);
  choose_address();
  // memif ends agree on min(queues) only after connecting, and then share ring 0 for the rest. Only one queue is safe.
  // net_e1000_em reports two, but has neither RSS nor, on most chips, a second queue.
  const bool one = driver_ == "net_memif" || driver_ == "net_e1000_em";
  const uint16_t most = one ? 1 : std::max<uint16_t>(1, std::min(info.max_rx_queues, info.max_tx_queues));
  queues_ = static_cast<uint16_t>(std::min<uint32_t>(options.engines, most));
  if (auto ok = choose_mtu(options); !ok) return ok;
  if (driver_ == "net_af_xdp") {
    if (auto ok = choose_xdp_program(options.kernel_addresses); !ok) return ok;
  }
  if (auto ok = choose_tx_mode(options.tx_mode, info.tx_offload_capa); !ok) return ok;
  card_ = is_card(info);
  rss_ = queues_ > 1 && (kRss & info.flow_type_rss_offloads) != 0;
  const auto pci = card_ ? read_pci_card(name_) : std::nullopt;
  on_pci_ = pci.has_value();
  // net_e1000_em says that it has interrupts. By vfio-pci none came (DPDK 22.11).
  const bool interrupts = pci ? pci->has_rx_interrupts() && driver_ != "net_e1000_em" : card_ || driver_ == "net_tap";
  rx_interrupts_ = options.rx_interrupts && interrupts;
  uint16_t tx = options.tx_descriptors;
  rx_descriptors_ = options.rx_descriptors;
  vlan_ = options.vlan;
  rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx_descriptors_, &tx);  // to the driver's limits and alignment
  tx_slots_ = tx;
  const uint32_t in_kernel = driver_ == "net_af_xdp" ? kAfXdpFill : 0;
  if (auto ok = make_pool(rx_descriptors_ + in_kernel, options.engines); !ok) return ok;
  return configure();
}

void EthdevPort::choose_address() {
  rte_ether_addr mac{};
  rte_eth_macaddr_get(id_, &mac);
  std::copy_n(mac.addr_bytes, mac_.bytes.size(), mac_.bytes.begin());
  if (mac_ != EthAddr{}) return;
  // net_ring and net_null have none. Make one that is locally administered and differs between processes and ports.
  const auto pid = static_cast<uint32_t>(getpid());
  mac_.bytes = {0x02,
                0x75,
                static_cast<uint8_t>(pid >> 16),
                static_cast<uint8_t>(pid >> 8),
                static_cast<uint8_t>(pid),
                static_cast<uint8_t>(id_ + 1)};
}

Result<void> EthdevPort::choose_tx_mode(StackOptions::TxMode wanted, uint64_t tx_capabilities) {
  using TxMode = StackOptions::TxMode;
  const bool segments = (tx_capabilities & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  constexpr std::array<std::string_view, 4> kCopies{"net_memif", "net_af_packet", "net_tap", "net_pcap"};
  const bool copies = std::ranges::find(kCopies, driver_) != kCopies.end();
  // memif in zero-copy mode hands out offsets into EAL's memory, and pcap's segments need no capability.
  const bool zero_copy = driver_ == "net_memif" && device_argument(devargs_, "zero-copy") == "yes";
  if (wanted == TxMode::copy || zero_copy || driver_ == "net_ring" || driver_ == "net_null") {
    external_ = ExternalMemory::never;
  } else if (copies && (segments || driver_ == "net_pcap")) {
    external_ = ExternalMemory::any;
  } else if (segments) {
    external_ = ExternalMemory::dma_mapped;
  }
  if (wanted == TxMode::external && external_ == ExternalMemory::never) {
    return fail_port(EINVAL, "cannot send payload from the program's memory; choose TX mode copy or automatic");
  }
  return {};
}

// Drivers refuse a set-up as a whole. So leave out one wish after the other, the least important one first.
Result<void> EthdevPort::configure() {
  int error = apply();
  for (bool* const wish : {&rx_interrupts_, &rss_}) {
    if (error != 0 && std::exchange(*wish, false)) error = apply();
  }
  if (error != 0 && queues_ > 1) {
    queues_ = 1;
    error = apply();
  }
  if (error != 0 && driver_ == "net_af_xdp") return fail_port(error, xdp_failure());
  if (error != 0) {
    rte_eth_dev_info info{};
    if (rte_eth_dev_info_get(id_, &info) != 0) info = {};
    return fail_port(
        error, fmt::format("refuses an MTU of {}, {} queue(s) of {} receive and {} send descriptors, and "
                           "buffers of {} bytes: {}; it says that it can have an MTU of {} to {}, {} queues "
                           "and {} and {} descriptors: set smaller values",
                           mtu_, queues_, rx_descriptors_, tx_slots_, room_, rte_strerror(-error), info.min_mtu,
                           largest_mtu(info), std::min(info.max_rx_queues, info.max_tx_queues), info.rx_desc_lim.nb_max,
                           info.tx_desc_lim.nb_max));
  }
  receive_all_groups();
  return {};
}

int EthdevPort::apply() {
  rte_eth_dev_info info{};
  int error = rte_eth_dev_info_get(id_, &info);
  if (error != 0) return error;
  rte_eth_conf conf{};
  if (set_mtu_) conf.rxmode.mtu = mtu_;
  if (rss_) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = kRss & info.flow_type_rss_offloads;
  }
  // No fast free: a multicast frame is sent and looped back at once, so some buffers have two references.
  tx_ip_checksum_ = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0;
  conf.rxmode.offloads = info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
  conf.txmode.offloads = info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
  if (vlan_ != 0) conf.rxmode.offloads |= info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_VLAN_FILTER;
  if (external_ != ExternalMemory::never) {
    conf.txmode.offloads |= info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  }
  conf.intr_conf.rxq = rx_interrupts_ ? 1 : 0;
  error = rte_eth_dev_configure(id_, queues_, queues_, &conf);
  for (uint16_t q = 0; q < queues_ && error == 0; ++q) {
    error = rte_eth_rx_queue_setup(id_, q, rx_descriptors_, static_cast<unsigned>(socket_), nullptr, pool_);
    if (error == 0) {
      error = rte_eth_tx_queue_setup(id_, q, static_cast<uint16_t>(tx_slots_), static_cast<unsigned>(socket_), nullptr);
    }
  }
  return error;
}

// Many drivers draw the key, and know the table only once they have started. One that does not tell leaves frames where
// the card puts them.
void EthdevPort::read_spread() {
  spread_.reset();
  std::array<uint8_t, 64> key{};  // more than any driver's
  rte_eth_rss_conf hash{.rss_key = key.data(), .rss_key_len = key.size(), .rss_hf = 0};
  rte_eth_dev_info info{};
  if (!rss_ || rte_eth_dev_info_get(id_, &info) != 0 || info.hash_key_size > key.size()) return;
  if (info.reta_size == 0 || info.reta_size > wire::ReceiveSpread::kMaxTable) return;
  if (rte_eth_dev_rss_hash_conf_get(id_, &hash) != 0 || hash.rss_key_len < RxHash::kKeyBytes) return;
  std::vector<rte_eth_rss_reta_entry64> table((info.reta_size + RTE_ETH_RETA_GROUP_SIZE - 1) / RTE_ETH_RETA_GROUP_SIZE);
  for (auto& group : table) group.mask = UINT64_MAX;
  if (rte_eth_dev_rss_reta_query(id_, table.data(), info.reta_size) != 0) return;
  std::vector<uint16_t> queues(info.reta_size);
  for (std::size_t i = 0; i < queues.size(); ++i) {
    queues[i] = table[i / RTE_ETH_RETA_GROUP_SIZE].reta[i % RTE_ETH_RETA_GROUP_SIZE];
  }
  spread_ = wire::ReceiveSpread::make(std::span(key).first<RxHash::kKeyBytes>(), std::move(queues),
                                      (hash.rss_hf & RTE_ETH_RSS_NONFRAG_IPV4_UDP) != 0,
                                      (hash.rss_hf & RTE_ETH_RSS_NONFRAG_IPV6_UDP) != 0);
}

// Some cards filter whether asked to or not: virtio-net does where its host has that feature.
void EthdevPort::admit_vlan() const {
  if (vlan_ == 0 || (rte_eth_dev_get_vlan_offload(id_) & RTE_ETH_VLAN_FILTER_OFFLOAD) == 0) return;
  const int error = rte_eth_dev_vlan_filter(id_, vlan_, 1);
  if (error == 0) return;
  note(fmt::format("port {} ({}) refuses to let VLAN {} pass its filter: {}; frames may be lost", name_, driver_, vlan_,
                   rte_strerror(-error)));
}

std::string EthdevPort::description() const {
  return fmt::format(
      "port {} ({}): MTU {}, path MTU {}; {} queue(s) of {} and {} descriptors{}, buffers of {} bytes; payload is sent "
      "{}; "
      "IPv4 checksums by {}; an idle engine wakes by {}; groups: {}",
      name_, driver_, mtu_, mtu_bytes(path_mtu_), queues_, rx_descriptors_, tx_slots_,
      queues_ == 1 ? ""
      : spread_    ? ", by UDP ports (RSS), which uroce peers choose"
      : rss_       ? ", by UDP ports (RSS)"
                   : ", as the card spreads them",
      room_, external_ == ExternalMemory::never ? "from a copy" : "from its place",
      tx_ip_checksum_ ? "the card" : "software", rx_interrupts_ ? "interrupt" : "naps",
      all_groups_ ? "all" : "those that are joined");
}

// Neighbour discovery uses multicast, and programs join and leave groups at any time. A filter that lets all groups
// pass is never out of date.
void EthdevPort::receive_all_groups() {
  all_groups_ = rte_eth_allmulticast_enable(id_) == 0;
  // A driver that cannot filter groups at all needs the promiscuous mode now: later the daemon may not set it.
  if (!all_groups_ && rte_eth_dev_set_mc_addr_list(id_, nullptr, 0) == -ENOTSUP && !is_on_netdev()) {
    all_groups_ = true;
    rte_eth_promiscuous_enable(id_);
  }
  if (all_groups_ || !is_on_netdev()) return;
  // The driver has no such call, but its interface has a filter. It stays open as long as this socket.
  auto membership = receive_all_multicast(netdev());
  if (!membership) return;
  group_socket_ = *membership;
  all_groups_ = true;
}

void EthdevPort::receive_groups(std::span<const EthAddr> groups) {
  if (all_groups_) return;
  std::vector<rte_ether_addr> list(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) std::ranges::copy(groups[i].bytes, list[i].addr_bytes);
  const int error = rte_eth_dev_set_mc_addr_list(id_, list.data(), static_cast<uint32_t>(list.size()));
  if (error == 0) return;
  // Virtual devices that filter nothing also refuse this, and always will.
  all_groups_ = true;
  rte_eth_promiscuous_enable(id_);
}

}  // namespace uroce::glue
