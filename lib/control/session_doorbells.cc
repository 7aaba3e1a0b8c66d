#include "control/session_doorbells.h"

#include <algorithm>
#include <bit>

#include "queues/place.h"

namespace uroce::control {
namespace {

/// A page, for half as many queue pairs.
constexpr uint32_t kSmallEntries = 1024;

}  // namespace

// A slot per queue pair, and as many again for doorbells of queue pairs that were destroyed before they were read.
Result<SessionDoorbells> SessionDoorbells::create(QueueAllocator& allocator, uint32_t max_qp, uint32_t engines) {
  const uint32_t large = 2 * std::bit_ceil(max_qp);
  const uint32_t small = std::min(kSmallEntries, large);
  auto memory = allocator.allocate(queues::DoorbellPlace::bytes(small, engines));
  if (!memory) return std::unexpected(memory.error());
  return SessionDoorbells(std::move(*memory), small, large, engines);
}

SessionDoorbells::Ring SessionDoorbells::small_ring(uint32_t engine) const {
  return {.data = queues::DoorbellPlace::at(small_->data(), small_entries_, engine), .entries = small_entries_};
}

SessionDoorbells::Ring SessionDoorbells::large_ring(uint32_t engine) const {
  const QueueMemory* memory = engines_[engine].large.get();
  return {.data = memory->data(), .entries = large_entries_, .large = memory};
}

std::optional<SessionDoorbells::Ring> SessionDoorbells::take(uint32_t engine) {
  OfEngine& rings = engines_[engine];
  if (rings.on_small < small_entries_ / 2) {
    ++rings.on_small;
    return small_ring(engine);
  }
  if (rings.large == nullptr) return std::nullopt;
  return large_ring(engine);
}

std::optional<SessionDoorbells::Ring> SessionDoorbells::take(uint32_t engine, bool large) {
  OfEngine& rings = engines_[engine];
  if (large) return rings.large != nullptr ? std::optional(large_ring(engine)) : std::nullopt;
  if (rings.on_small >= small_entries_ / 2) return std::nullopt;
  ++rings.on_small;
  return small_ring(engine);
}

void SessionDoorbells::give_back(uint32_t engine, const Ring& ring) {
  if (ring.large == nullptr) --engines_[engine].on_small;
}

SessionDoorbells::Ring SessionDoorbells::add_large(uint32_t engine, std::unique_ptr<QueueMemory> memory) {
  engines_[engine].large = std::move(memory);
  return large_ring(engine);
}

std::vector<std::unique_ptr<QueueMemory>> SessionDoorbells::release() {
  std::vector<std::unique_ptr<QueueMemory>> all;
  all.push_back(std::move(small_));
  for (OfEngine& rings : engines_) {
    if (rings.large != nullptr) all.push_back(std::move(rings.large));
  }
  return all;
}

}  // namespace uroce::control
