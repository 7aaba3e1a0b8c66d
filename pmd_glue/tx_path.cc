#include "pmd_glue/tx_path.h"

#include "pmd_glue/fault_guard.h"

namespace uroce::glue {

uint16_t QueuePath::push(std::span<rte_mbuf*> mbufs) {
  const auto count = static_cast<uint16_t>(mbufs.size());
  if (port_.gone()) [[unlikely]] {
    rte_pktmbuf_free_bulk(mbufs.data(), count);
    return count;
  }
  if (!needs_guard_) return port_.send(queue_, mbufs);
  volatile uint16_t sent = 0;
  const bool whole = guarded([&] { sent = port_.send(queue_, mbufs); });
  if (whole) return sent;
  // Nobody knows which buffers the driver has freed, so none is touched again. The peer is gone, and its frames are
  // lost in any case.
  faulted_ = true;
  return count;
}

void QueuePath::reclaim() { port_.reclaim(queue_); }

}  // namespace uroce::glue
