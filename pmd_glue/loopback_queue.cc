#include "pmd_glue/loopback_queue.h"

#include <bit>

namespace uroce::glue {

LoopbackQueue::~LoopbackQueue() {
  for (std::size_t i = 0; i < count_; ++i) {
    for (int references = std::popcount(targets_[i]); references > 0; --references) rte_pktmbuf_free(mbufs_[i]);
  }
}

void LoopbackQueue::add(rte_mbuf* mbuf, uint64_t targets, Handover::For whom) {
  rte_mbuf_refcnt_set(mbuf, static_cast<uint16_t>(std::popcount(targets)));
  targets_[count_] = targets;
  for_[count_] = whom;
  mbufs_[count_++] = mbuf;
}

bool LoopbackQueue::flush() {
  std::size_t kept = 0;
  // Keep the order for each engine: once its ring is full, its later frames wait too.
  uint64_t full = 0;
  bool moved = false;
  for (std::size_t i = 0; i < count_; ++i) {
    uint64_t waiting = 0;
    for (uint64_t targets = targets_[i]; targets != 0; targets &= targets - 1) {
      const auto engine = static_cast<uint32_t>(std::countr_zero(targets));
      if ((full >> engine & 1) == 0 && handover_.put(engine, mbufs_[i], for_[i])) continue;
      full |= uint64_t{1} << engine;
      waiting |= uint64_t{1} << engine;
    }
    moved = moved || waiting != targets_[i];
    if (waiting == 0) continue;
    mbufs_[kept] = mbufs_[i];
    for_[kept] = for_[i];
    targets_[kept++] = waiting;
  }
  count_ = kept;
  return moved;
}

}  // namespace uroce::glue
