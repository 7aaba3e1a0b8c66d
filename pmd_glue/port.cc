#include "pmd_glue/port.h"

#include <fmt/format.h>
#include <rte_bus.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_log.h>
#include <rte_mbuf.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "pmd_glue/eal_args.h"
#include "pmd_glue/frame_size.h"
#include "pmd_glue/interrupt_thread.h"
#include "pmd_glue/memif.h"
#include "pmd_glue/netdev.h"

namespace uroce::glue {

namespace {

constexpr unsigned kMempoolCache = 256;
constexpr auto kServerTimeout = std::chrono::seconds(5);

constexpr uint64_t kRss =
    RTE_ETH_RSS_IPV4 | RTE_ETH_RSS_IPV6 | RTE_ETH_RSS_NONFRAG_IPV4_UDP | RTE_ETH_RSS_NONFRAG_IPV6_UDP;

/// Silences one log type of DPDK while it lives.
class SilencedLog {
 public:
  explicit SilencedLog(const char* type) {
    if (type == nullptr) return;
    type_ = rte_log_register(type);  // returns the existing type of this name
    level_ = rte_log_get_level(static_cast<uint32_t>(type_));
    rte_log_set_level(static_cast<uint32_t>(type_), RTE_LOG_CRIT);
  }
  ~SilencedLog() {
    if (type_ >= 0 && level_ >= 0) rte_log_set_level(static_cast<uint32_t>(type_), static_cast<uint32_t>(level_));
  }
  SilencedLog(const SilencedLog&) = delete;
  SilencedLog& operator=(const SilencedLog&) = delete;

 private:
  int type_ = -1;
  int level_ = -1;
};

/// Drivers that have a descriptor to wait on for each RX queue.
constexpr std::array kRxInterrupts{"net_tap", "net_ixgbe", "net_i40e", "net_ice", "net_iavf", "mlx5_pci"};

// Software ports report a speed that is a constant in their driver.
uint32_t speed_of(const rte_eth_dev_info& info) {
  uint32_t best = 0;
  for (const uint32_t mbps :
       {10u, 100u, 1000u, 2500u, 5000u, 10000u, 20000u, 25000u, 40000u, 50000u, 56000u, 100000u, 200000u, 400000u}) {
    if ((info.speed_capa & rte_eth_speed_bitflag(mbps, RTE_ETH_LINK_FULL_DUPLEX)) != 0) best = mbps;
  }
  const bool software = info.device == nullptr || rte_dev_bus(info.device) == nullptr ||
                        std::string_view(rte_bus_name(rte_dev_bus(info.device))) == "vdev";
  constexpr uint32_t kUnknown = 100000;
  return software || best == 0 ? kUnknown : best;
}

}  // namespace

Result<std::unique_ptr<Port>> Port::open(uint16_t id, const PortOptions& options) {
  std::unique_ptr<Port> port(new Port);
  port->id_ = id;
  if (auto ok = port->set_up(options); !ok) return std::unexpected(ok.error());
  return port;
}

Port::~Port() {
  close();
  if (!stuck_) rte_mempool_free(pool_);
}

Result<void> Port::fail_port(int code, std::string_view what) const {
  return fail(code < 0 ? -code : code, fmt::format("port {} ({}) {}", name_, driver_, what));
}

Result<void> Port::set_up(const PortOptions& options) {
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
  rte_ether_addr mac{};
  rte_eth_macaddr_get(id_, &mac);
  std::copy_n(mac.addr_bytes, mac_.bytes.size(), mac_.bytes.begin());
  if (mac_ == EthAddr{}) {
    // net_ring and net_null have none. Make one that is locally administered and differs between processes and ports.
    const auto pid = static_cast<uint32_t>(getpid());
    mac_.bytes = {0x02,
                  0x75,
                  static_cast<uint8_t>(pid >> 16),
                  static_cast<uint8_t>(pid >> 8),
                  static_cast<uint8_t>(pid),
                  static_cast<uint8_t>(id_ + 1)};
  }
  // memif ends agree on min(queues) only after connecting, and then share ring 0 for the rest. Only one queue is safe.
  const uint16_t most =
      driver_ == "net_memif" ? 1 : std::max<uint16_t>(1, std::min(info.max_rx_queues, info.max_tx_queues));
  queues_ = static_cast<uint16_t>(std::min<uint32_t>(options.engines, most));
  if (auto ok = choose_mtu(options); !ok) return ok;
  if (auto ok = choose_tx_mode(options.tx_mode, info.tx_offload_capa); !ok) return ok;
  if (auto ok = make_pool(options); !ok) return ok;
  return configure(options);
}

Result<void> Port::choose_tx_mode(StackOptions::TxMode wanted, uint64_t tx_capabilities) {
  using TxMode = StackOptions::TxMode;
  const bool segments = (tx_capabilities & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
  constexpr std::array kCopies{"net_memif", "net_af_packet", "net_tap", "net_pcap"};
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

Result<void> Port::make_pool(const PortOptions& options) {
  // A buffer holds one whole frame, so every received frame is contiguous.
  const uint32_t count = queues_ * (options.rx_descriptors + options.tx_descriptors) + options.engines * 1024;
  const std::string pool_name = fmt::format("uroce-port{}", id_);
  // RTS rings: an lcore thread that is preempted between claiming and filling slots does not stall the others.
  pool_ = rte_pktmbuf_pool_create_by_ops(pool_name.c_str(), count, kMempoolCache, 0,
                                         static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + room_), socket_, "ring_mt_rts");
  if (pool_ != nullptr) return {};
  return fail_port(ENOMEM, fmt::format("cannot allocate {} buffers of {} bytes ({} MiB); give EAL more memory with "
                                       "-m, or set fewer descriptors",
                                       count, room_, (uint64_t{count} * (room_ + 320)) >> 20));
}

Result<void> Port::configure(const PortOptions& options) {
  rte_eth_dev_info info{};
  rte_eth_dev_info_get(id_, &info);
  rte_eth_conf conf{};
  if (set_mtu_) conf.rxmode.mtu = mtu_;
  if (queues_ > 1) {
    conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    conf.rx_adv_conf.rss_conf.rss_hf = kRss & info.flow_type_rss_offloads;
    if (conf.rx_adv_conf.rss_conf.rss_hf == 0) conf.rxmode.mq_mode = RTE_ETH_MQ_RX_NONE;
  }
  tx_ip_checksum_ = (info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_IPV4_CKSUM) != 0;
  if ((info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_IPV4_CKSUM) != 0)
    conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_IPV4_CKSUM;
  if (tx_ip_checksum_) conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_IPV4_CKSUM;
  if ((info.tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0 && external_ != ExternalMemory::never) {
    conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
  }
  rx_interrupts_ = options.rx_interrupts && std::ranges::find(kRxInterrupts, driver_) != kRxInterrupts.end();
  conf.intr_conf.rxq = rx_interrupts_ ? 1 : 0;
  int error = rte_eth_dev_configure(id_, queues_, queues_, &conf);
  uint16_t rx = options.rx_descriptors;
  uint16_t tx = options.tx_descriptors;
  if (error == 0) error = rte_eth_dev_adjust_nb_rx_tx_desc(id_, &rx, &tx);
  for (uint16_t q = 0; q < queues_ && error == 0; ++q) {
    error = rte_eth_rx_queue_setup(id_, q, rx, static_cast<unsigned>(socket_), nullptr, pool_);
    if (error == 0) error = rte_eth_tx_queue_setup(id_, q, tx, static_cast<unsigned>(socket_), nullptr);
  }
  if (error != 0) return fail_port(error, fmt::format("cannot be configured: {}", rte_strerror(-error)));
  tx_slots_ = tx;
  receive_all_groups();
  return {};
}

// Neighbour discovery uses multicast, and programs join and leave groups at any time. A filter that lets all groups
// pass is never out of date.
void Port::receive_all_groups() {
  all_groups_ = rte_eth_allmulticast_enable(id_) == 0;
  if (all_groups_ || driver_ != "net_af_packet") return;
  // The driver has no such call, but its interface has a filter. It stays open as long as this socket.
  auto membership = receive_all_multicast(std::string(device_argument(devargs_, "iface")));
  if (!membership) return;
  group_socket_ = *membership;
  all_groups_ = true;
}

void Port::receive_groups(std::span<const EthAddr> groups) {
  if (all_groups_) return;
  std::vector<rte_ether_addr> list(groups.size());
  for (std::size_t i = 0; i < groups.size(); ++i) std::ranges::copy(groups[i].bytes, list[i].addr_bytes);
  const int error = rte_eth_dev_set_mc_addr_list(id_, list.data(), static_cast<uint32_t>(list.size()));
  if (error == 0) return;
  // Virtual devices that filter nothing also refuse this, and always will.
  all_groups_ = true;
  rte_eth_promiscuous_enable(id_);
}

// `work` owns everything it uses, because it may outlive the port (see on_interrupt_thread).
std::optional<int> Port::beside_no_handler(std::function<int()> work) const {
  if (needs_guard()) return on_interrupt_thread(std::move(work));
  return work();
}

Result<void> Port::start() {
  const bool client = driver_ == "net_memif" && is_memif_client(devargs_);
  const auto until = std::chrono::steady_clock::now() + kServerTimeout;
  const auto try_start = [id = id_] { return rte_eth_dev_start(id); };
  const SilencedLog silenced(client ? "pmd.net.memif" : nullptr);  // one message at the end reports it
  auto error = beside_no_handler(try_start);
  while (error.value_or(0) != 0 && client && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    error = beside_no_handler(try_start);
  }
  if (!error) {
    stuck_ = true;
    return fail_port(ETIMEDOUT, fmt::format("did not start within {} s, because EAL's interrupt thread is stuck in a "
                                            "driver; start the program again",
                                            kInterruptTimeout.count()));
  }
  if (*error != 0 && client) {
    return fail_port(ENODEV, fmt::format("found no memif server on {} within 5 s; start the one with role=server first",
                                         memif_socket(devargs_)));
  }
  if (*error != 0) return fail_port(*error, fmt::format("did not start: {}", rte_strerror(-*error)));
  started_ = true;
  refresh_link();
  return {};
}

void Port::stop() {
  if (!started_) return;
  started_ = false;
  link_up_.store(false, std::memory_order_relaxed);
  stuck_ = !beside_no_handler([id = id_] { return rte_eth_dev_stop(id); }).has_value();
}

void Port::close() {
  stop();
  if (opened_ && !stuck_) {
    const bool listens = driver_ == "net_memif" && !is_memif_client(devargs_);
    const auto closed = beside_no_handler([id = id_, devargs = devargs_, listens] {
      // Other ports may share the socket. They lose later clients, but otherwise the last port to close would make a
      // later client crash the process.
      if (listens) silence_memif_listener(devargs);
      return rte_eth_dev_close(id);
    });
    stuck_ = !closed.has_value();
  }
  if (opened_ && stuck_) {
    fmt::print(stderr, "port {} ({}) stays open: its driver did not return within {} s\n", name_, driver_,
               kInterruptTimeout.count());
  }
  opened_ = false;
  if (group_socket_ >= 0) ::close(std::exchange(group_socket_, -1));
}

void Port::reconnect(uint32_t pollers) {
  if (driver_ != "net_memif" || !is_memif_client(devargs_) || link_up()) return;
  if (pause_.load(std::memory_order_relaxed) == 0) {
    paused_pollers_.store(0, std::memory_order_relaxed);
    pause_.store(++pauses_, std::memory_order_release);
  }
  if (paused_pollers_.load(std::memory_order_acquire) < pollers) return;
  const SilencedLog silenced("pmd.net.memif");
  const auto error = on_interrupt_thread([id = id_] {
    rte_eth_dev_stop(id);
    return rte_eth_dev_start(id);
  });
  // Nobody may poll a port that did not start, or that may still start.
  if (error == 0) pause_.store(0, std::memory_order_release);
}

void Port::refresh_link() {
  rte_eth_link link{};
  bool up = rte_eth_link_get_nowait(id_, &link) == 0 && link.link_status == RTE_ETH_LINK_UP;
  // While pollers pause the port is not up, even if a late start brought its link up. reconnect() ends the pause.
  up = up && pause_.load(std::memory_order_relaxed) == 0;
  // net_af_packet always reports an up link, and loses frames while its interface is down.
  if (driver_ == "net_af_packet") {
    const auto running = netdev_running(std::string(device_argument(devargs_, "iface")));
    up = up && running.value_or(false);
  }
  link_up_.store(up, std::memory_order_relaxed);
}

}  // namespace uroce::glue
