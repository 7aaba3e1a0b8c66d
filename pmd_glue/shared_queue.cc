#include "pmd_glue/shared_queue.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include <cstring>

namespace uroce::glue {

namespace {
constexpr unsigned kSharedSlots = 256;
}

Result<std::unique_ptr<SharedQueue>> SharedQueue::make(const std::string& name, int socket) {
  std::unique_ptr<SharedQueue> queue(new SharedQueue);
  queue->ring_ = rte_ring_create(name.c_str(), kSharedSlots, socket, RING_F_MP_RTS_ENQ | RING_F_SC_DEQ);
  if (queue->ring_ == nullptr) {
    return fail(rte_errno,
                fmt::format("cannot create ring {}: {}; give EAL more memory with -m", name, rte_strerror(rte_errno)));
  }
  return queue;
}

SharedQueue::~SharedQueue() {
  rte_pktmbuf_free_bulk(burst_.data(), static_cast<unsigned>(pending_));
  void* mbuf = nullptr;
  while (ring_ != nullptr && rte_ring_dequeue(ring_, &mbuf) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(mbuf));
  rte_ring_free(ring_);
}

uint16_t SharedQueue::put(std::span<rte_mbuf*> mbufs) {
  return static_cast<uint16_t>(rte_ring_enqueue_burst(ring_, reinterpret_cast<void**>(mbufs.data()),
                                                      static_cast<unsigned>(mbufs.size()), nullptr));
}

bool SharedQueue::drain(TxPath& path) {
  if (pending_ < kBurst) {
    pending_ += rte_ring_dequeue_burst(ring_, reinterpret_cast<void**>(burst_.data() + pending_),
                                       static_cast<unsigned>(kBurst - pending_), nullptr);
  }
  if (pending_ == 0) return false;
  const std::size_t sent = path.push({burst_.data(), pending_});
  pending_ -= sent;
  std::memmove(burst_.data(), burst_.data() + sent, pending_ * sizeof(rte_mbuf*));
  return sent != 0;
}

bool SharedQueue::empty() const { return pending_ == 0 && rte_ring_empty(ring_) != 0; }

}  // namespace uroce::glue
