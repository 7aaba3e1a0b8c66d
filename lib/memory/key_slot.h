// An entry of the region table: the memory region or memory window that a key names.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <uroce/types.h>

namespace uroce::memory {

/// A region or window key, which serves as lkey and rkey: slot in the high bits, generation in the low ones. 0 is never
/// a key.
using Key = uint32_t;
/// Protection domain number, unique per device. 0 is never a domain.
using PdId = uint32_t;

struct RegionSpec {
  PdId pd = 0;
  uint64_t address = 0;       ///< the address in work requests and in packets (0 for zero-based regions)
  uint64_t length = 0;        ///< bytes
  std::byte* host = nullptr;  ///< where this process has mapped the same bytes; not owned
  AccessFlags access{};
};

struct alignas(64) KeySlot {
  static constexpr uint32_t kNullType = 0xff;  // a null region: ibv_alloc_null_mr(3)

  std::atomic<uint32_t> key{0};  // 0: no region, or an unbound window. Stored last on add, first on remove.
  std::atomic<PdId> pd{0};
  std::atomic<uint32_t> access{0};
  // 0: a region. Else the key of a window or null region; the low 8 bits hold its type (WindowType, kNullType) instead.
  std::atomic<uint32_t> window{0};
  std::atomic<uint64_t> address{0};
  std::atomic<uint64_t> length{0};
  std::byte* host = nullptr;          // regions
  std::atomic<uint32_t> sequence{1};  // windows: odd while one is being changed; always odd in other slots
  std::atomic<uint32_t> bound{0};     // type 2 windows: the QPN; regions: the number of bound windows
  std::atomic<uint32_t> parent{0};    // windows: the region's key
  // Control thread only.
  uint32_t generation = 0;
  Key issued = 0;   // from add() to remove(), even after invalidate()
  Key removed = 0;  // from remove() to retire()

  void set(const RegionSpec& spec) {
    pd.store(spec.pd, std::memory_order_relaxed);
    access.store(spec.access.bits(), std::memory_order_relaxed);
    window.store(0, std::memory_order_relaxed);
    address.store(spec.address, std::memory_order_relaxed);
    length.store(spec.length, std::memory_order_relaxed);
    host = spec.host;
    bound.store(0, std::memory_order_relaxed);
  }
  bool is_null() const { return (window.load(std::memory_order_relaxed) & 0xff) == kNullType; }
  AccessFlags access_flags() const { return AccessFlags::from_bits(access.load(std::memory_order_relaxed)); }
};
static_assert(sizeof(KeySlot) == 64);
static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace uroce::memory
