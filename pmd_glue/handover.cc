#include "pmd_glue/handover.h"

#include <cstddef>

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

namespace uroce::glue {

namespace {
constexpr unsigned kHandoverSlots = 1024;

// A ring holds pointers alone. The lowest bits of one tell why the frame is there.
constexpr uintptr_t kWhy = 3;
static_assert(static_cast<uintptr_t>(Handover::For::sniffers) <= kWhy && alignof(rte_mbuf) > kWhy);

uintptr_t why_of(const void* entry) { return reinterpret_cast<uintptr_t>(entry) & kWhy; }
rte_mbuf* mbuf_of(void* entry) { return reinterpret_cast<rte_mbuf*>(static_cast<std::byte*>(entry) - why_of(entry)); }
}  // namespace

Result<std::unique_ptr<Handover>> Handover::make(const std::string& name, std::vector<Waker*> wakers, int socket) {
  const std::size_t engines = wakers.size();
  std::unique_ptr<Handover> handover(new Handover(std::move(wakers)));
  for (std::size_t i = 0; i < engines; ++i) {
    const std::string ring_name = fmt::format("{}-h{}", name, i);
    // RTS ring: a producer that is preempted in the middle does not stall the others.
    rte_ring* ring = rte_ring_create(ring_name.c_str(), kHandoverSlots, socket, RING_F_MP_RTS_ENQ | RING_F_SC_DEQ);
    if (ring == nullptr) {
      return fail(rte_errno, fmt::format("cannot create ring {}: {}; give EAL more memory with -m", ring_name,
                                         rte_strerror(rte_errno)));
    }
    handover->rings_.push_back(ring);
  }
  return handover;
}

Handover::~Handover() {
  for (rte_ring* ring : rings_) {
    void* entry = nullptr;
    while (rte_ring_dequeue(ring, &entry) == 0) rte_pktmbuf_free(mbuf_of(entry));
    rte_ring_free(ring);
  }
}

bool Handover::put(uint32_t engine, rte_mbuf* mbuf, For why) {
  if (why == For::sniffers && rte_ring_count(rings_[engine]) >= kHandoverSlots / 2) return false;
  std::byte* entry = reinterpret_cast<std::byte*>(mbuf) + static_cast<uintptr_t>(why);
  if (rte_ring_enqueue(rings_[engine], entry) != 0) return false;
  wakers_[engine]->wake();
  return true;
}

uint32_t Handover::take(uint32_t engine, std::span<rte_mbuf*> out, std::span<For> why) {
  const uint32_t count = rte_ring_dequeue_burst(rings_[engine], reinterpret_cast<void**>(out.data()),
                                                static_cast<unsigned>(out.size()), nullptr);
  for (uint32_t i = 0; i < count; ++i) {
    if (!why.empty()) why[i] = static_cast<For>(why_of(out[i]));
    out[i] = mbuf_of(out[i]);
  }
  return count;
}

uint32_t Handover::waiting(uint32_t engine) const { return rte_ring_count(rings_[engine]); }

bool Handover::empty(uint32_t engine) const { return rte_ring_empty(rings_[engine]) != 0; }

}  // namespace uroce::glue
