// A device as it describes itself: its properties, its limits, and its asynchronous events. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <uroce/types.h>

namespace uroce {

/// A device's properties and limits (ibv_query_device(3), ibv_query_port(3)).
struct DeviceInfo {
  std::string name;               ///< e.g. "uroce0"
  std::string driver;             ///< the port's poll-mode driver, e.g. "net_memif"
  EthAddr mac{};                  ///< the port's Ethernet address
  std::vector<Gid> gids;          ///< the GID table by sgid_index; configured addresses come first
  std::string kernel_interface;   ///< the kernel's interface whose addresses these are; empty: the device's own
  Mtu active_mtu = Mtu::mtu1024;  ///< largest path MTU that the port carries
  bool link_up = false;           ///< when the device was opened; asynchronous events report changes
  Sending sending{};              ///< how its frames leave, when the device was opened
  uint32_t engines = 1;           ///< number of engines, each on its own lcore; see QpInit::engine
  // This program may have so many. With a daemon: its user's part, over all programs of the user together.
  uint32_t max_qp = 0;
  uint32_t max_qp_wr = 0;  ///< work requests per queue
  uint32_t max_cq = 0;
  uint32_t max_cqe = 0;  ///< entries per completion queue
  uint32_t max_mr = 0;   ///< memory regions and windows together
  uint32_t max_mw = 0;
  uint32_t max_srq = 0;
  uint32_t max_ah = 0;
  uint32_t max_pd = 0;
  uint32_t max_multicast_attach = 0;  ///< queue pairs attached to multicast groups, counted per group
  uint32_t max_flow = 0;              ///< receive rules; 0: this program may have no raw packet queue pairs
  uint32_t max_sge = kMaxSge;
  uint32_t max_inline = kMaxInline;
  uint32_t max_rd_atomic = kMaxRdAtomic;
  uint64_t max_message = kMaxMessage;  ///< bytes
  /// Bytes of DeviceMemory that one Context may have. The library's own limit, so it does not come from the daemon.
  uint64_t max_device_memory = kMaxDeviceMemory;
};

/// An asynchronous event (ibv_get_async_event(3)).
struct AsyncEvent {
  AsyncEventType type{};
  uint32_t object = 0;  ///< by `type`: QPN, id of the completion queue or shared receive queue, or port number
};

}  // namespace uroce
