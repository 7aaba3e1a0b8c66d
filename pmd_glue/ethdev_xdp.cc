// The part of an ethdev port that DPDK's net_af_xdp needs alone: its XDP program, and frames that fit its buffers.
#include <fmt/format.h>
#include <rte_mempool.h>
#include <sys/resource.h>

#include <algorithm>

#include "pmd_glue/eal_args.h"
#include "pmd_glue/ethdev_port.h"
#include "pmd_glue/frame_size.h"
#include "pmd_glue/netdev.h"
#include "pmd_glue/notes.h"
#include "pmd_glue/xdp/program.h"

namespace uroce::glue {

std::string EthdevPort::netdev() const { return std::string(device_argument(devargs_, "iface")); }

Result<void> EthdevPort::choose_xdp_program(bool kernel_addresses) {
  const std::string program(device_argument(devargs_, "xdp_prog"));
  if (xdp::is_program_file(program)) {
    // ARP and neighbour discovery for an address of the port's own must come up, and a frame cannot go both ways.
    const auto steering = kernel_addresses ? xdp::Steering::roce : xdp::Steering::all;
    if (auto ok = xdp::write_program(program, steering); !ok)
      return fail_port(ok.error().code, fmt::format("has no XDP program: {}", ok.error().text));
  }
  if (kernel_addresses && program.empty()) {
    return fail_port(ENOTSUP,
                     fmt::format("cannot leave interface {} to the kernel: this build has no XDP program, because it "
                                 "found no clang for BPF; install clang and build again, give a program with xdp_prog= "
                                 "in --vdev, or use --interface {}",
                                 netdev(), netdev()));
  }
  const uint32_t receiving = netdev_queues(netdev()).receive;
  if (receiving > queues_ && device_argument(devargs_, "start_queue").empty()) {
    note(
        fmt::format("port {} ({}): {} receives by {} queues, and {} of them are served, one by each engine; RoCE on "
                    "the others is lost: lower their number with ethtool -L, or have {} engines",
                    name_, driver_, netdev(), receiving, queues_, receiving));
  }
  return {};
}

// The driver gives one error for everything. Its reasons are lines of its own.
std::string EthdevPort::xdp_failure() const {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  const uint64_t needed = (uint64_t{rte_mempool_avail_count(pool_)} * (room_ + kAfXdpBufferHeaders)) >> 10;
  const std::string locked =
      limit.rlim_cur == RLIM_INFINITY ? "unlimited" : fmt::format("{} KiB", uint64_t{limit.rlim_cur} >> 10);
  return fmt::format(
      "gets no AF_XDP socket on {}, for the reason in the driver's lines above; it needs CAP_NET_ADMIN, CAP_NET_RAW "
      "and CAP_BPF, without CAP_IPC_LOCK {} KiB of locked memory for each queue (ulimit -l is: {}), a queue that no "
      "other socket has, and on a veth pair a peer whose MTU is at most {}; or use --interface {}",
      netdev(), needed, locked, kAfXdpLargestMtu, netdev());
}

// The driver itself takes any MTU of the interface, and loses frames that are longer than its buffers.
Result<void> EthdevPort::choose_xdp_mtu(uint32_t asked) {
  const std::string interface = netdev();
  const auto advice = fmt::format("set mtu to {} or less, or use --interface {}", kAfXdpLargestMtu, interface);
  if (asked > kAfXdpLargestMtu) {
    return fail_port(EINVAL,
                     fmt::format("cannot have mtu {}; its limit is {}, because a frame must fit one page beside "
                                 "the buffer's headers: {}",
                                 asked, kAfXdpLargestMtu, advice));
  }
  if (asked != 0) {
    if (auto ok = set_netdev_mtu(interface, asked); !ok) {
      return fail_port(ok.error().code, fmt::format("cannot have mtu {}: interface {} says '{}'; choose a smaller mtu",
                                                    asked, interface, ok.error().text));
    }
  }
  const auto own = netdev_mtu(interface);
  if (!own)
    return fail_port(own.error().code, fmt::format("cannot read the MTU of {}: {}", interface, own.error().text));
  if (*own > kAfXdpLargestMtu) {
    return fail_port(EINVAL,
                     fmt::format("cannot use {}, whose MTU is {}; the limit is {}, because a frame must fit one page "
                                 "beside the buffer's headers: {}",
                                 interface, *own, kAfXdpLargestMtu, advice));
  }
  if (auto ok = choose_path_mtu(*own); !ok) return ok;
  room_ = std::max(room_, (max_frame_ + kAfXdpKernelHeadroom + 63) / 64 * 64);
  return {};
}

}  // namespace uroce::glue
