#include "pmd_glue/port.h"

#include <fmt/format.h>
#include <rte_mbuf.h>

#include <algorithm>

#include "pmd_glue/frame_size.h"

namespace uroce::glue {

namespace {

constexpr unsigned kMempoolCache = 256;

}  // namespace

Port::~Port() { rte_mempool_free(pool_); }

std::unexpected<Error> Port::fail_port(int code, std::string_view what) const {
  return fail(code < 0 ? -code : code, fmt::format("port {} ({}) {}", name_, driver_, what));
}

void Port::take_heritage(const PortOptions& options) {
  inherited_ = options.inherited;
  device_ = options.device;
  if (inherited_ != nullptr) pause_.begin(0);
}

Result<uint32_t> Port::asked_mtu(const PortOptions& options) const {
  const auto asked = static_cast<uint32_t>(std::max(options.mtu, 0));
  if (options.mtu >= 0 && asked <= settings::kLargestMtu && (asked == 0 || asked >= settings::kLeastMtu)) return asked;
  return fail_port(EINVAL, fmt::format("cannot have mtu {}; the range is {} (path MTU 256) to {}", options.mtu,
                                       settings::kLeastMtu, settings::kLargestMtu));
}

Result<void> Port::choose_path_mtu(uint32_t mtu) {
  mtu_ = mtu;
  const auto path = path_mtu_for(mtu_);
  if (!path) {
    return fail_port(EINVAL, fmt::format("has an MTU of {}, but the smallest path MTU (256) needs {}; raise it", mtu_,
                                         settings::kLeastMtu));
  }
  path_mtu_ = *path;
  max_frame_ = mtu_ + kEtherOverhead;
  room_ = std::max({room_, (max_frame_ + 63) / 64 * 64, 2048u});
  return {};
}

Result<void> Port::make_pool(uint32_t receiving, uint32_t engines) {
  // A buffer holds one whole frame, so every received frame is contiguous.
  const uint32_t count = queues_ * (receiving + tx_slots_) + engines * 1024;
  const std::string pool_name = fmt::format("uroce-port{}", id_);
  // RTS rings: an lcore thread that is preempted between claiming and filling slots does not stall the others.
  pool_ = rte_pktmbuf_pool_create_by_ops(pool_name.c_str(), count, kMempoolCache, 0,
                                         static_cast<uint16_t>(RTE_PKTMBUF_HEADROOM + room_), socket_, "ring_mt_rts");
  if (pool_ != nullptr) return {};
  return fail_port(ENOMEM, fmt::format("cannot allocate {} buffers of {} bytes ({} MiB); give EAL more memory with "
                                       "-m, or set fewer descriptors",
                                       count, room_, (uint64_t{count} * (room_ + 320)) >> 20));
}

void Port::cut(bool away) {
  cut_.store(away, std::memory_order_relaxed);
  // A link that changes is up once refresh_link() sees that.
  link_up_.store(!away && !link_changes(), std::memory_order_relaxed);
}

void Port::look_at_link() {
  if (!cut_.load(std::memory_order_relaxed)) refresh_link();
  if (cut_.load(std::memory_order_relaxed)) link_up_.store(false, std::memory_order_relaxed);
}

}  // namespace uroce::glue
