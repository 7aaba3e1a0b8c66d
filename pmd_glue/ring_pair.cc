#include "pmd_glue/ring_pair.h"

#include <fmt/format.h>
#include <rte_bus_vdev.h>
#include <rte_errno.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_ring.h>

#include <algorithm>
#include <bit>

namespace uroce::glue {

namespace {
constexpr uint32_t kMaxQueues = 16;  // limit of net_ring
}

Result<std::unique_ptr<RingPair>> RingPair::make(uint32_t queues, uint32_t slots) {
  std::unique_ptr<RingPair> pair(new RingPair);
  queues = std::min(queues, kMaxQueues);
  const auto socket = static_cast<int>(rte_socket_id());
  for (const char* direction : {"ab", "ba"}) {
    for (uint32_t q = 0; q < queues; ++q) {
      const std::string name = fmt::format("uroce-{}{}", direction, q);
      rte_ring* ring = rte_ring_create(name.c_str(), std::bit_ceil(slots), socket, RING_F_SP_ENQ | RING_F_SC_DEQ);
      if (ring == nullptr) {
        return fail(rte_errno, fmt::format("cannot create ring {}: {}; give EAL more memory with -m", name,
                                           rte_strerror(rte_errno)));
      }
      pair->rings_.push_back(ring);
    }
  }
  rte_ring** ab = pair->rings_.data();
  rte_ring** ba = ab + queues;
  const int a = rte_eth_from_rings("uroce0", ba, queues, ab, queues, static_cast<unsigned>(socket));
  const int b = a < 0 ? -1 : rte_eth_from_rings("uroce1", ab, queues, ba, queues, static_cast<unsigned>(socket));
  if (b < 0) return fail(rte_errno, fmt::format("cannot make a port from rings: {}", rte_strerror(rte_errno)));
  pair->ports_ = {static_cast<uint16_t>(a), static_cast<uint16_t>(b)};
  return pair;
}

RingPair::~RingPair() {
  for (const char* name : {"net_ring_uroce0", "net_ring_uroce1"}) rte_vdev_uninit(name);
  for (rte_ring* ring : rings_) rte_ring_free(ring);
}

}  // namespace uroce::glue
