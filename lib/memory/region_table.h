// Memory regions and their keys: every access that the wire or a work request asks for is decided here.
//
// Threads: one control thread adds and removes (callers hold the device's control lock); engines look up
// without locks. Of a slot only `key` is atomic. That is sound because the plain fields are written while `key` is 0
// and no engine can still be reading them:
//   add     writes the fields, then stores the key (release); a look-up that reads this key (acquire) sees them.
//   remove  stores 0 and nothing else. A look-up that read the key before that goes on reading unchanged fields.
//   suspend, resume  are remove and add for one key: the fields are rewritten after a quiescent point only.
//   retire  is called once every engine has passed a quiescent point since remove(), which orders those last reads
//           before whatever follows. Only now does the slot return to the free list, and only add() rewrites it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/random.h"

namespace uroce::memory {

/// A region or window key: slot in the high bits, generation in the low ones. 0 is never a key.
using Key = uint32_t;
/// Protection domain number, unique per device. 0 is never a domain.
using PdId = uint32_t;

enum class AccessResult : uint8_t { ok, bad_key, wrong_domain, not_permitted, out_of_bounds };

struct Translation {
  AccessResult result = AccessResult::bad_key;
  std::byte* host = nullptr;  ///< where the bytes are in this process; valid only with `ok`
};

struct RegionSpec {
  PdId pd = 0;
  uint64_t address = 0;       ///< address that work requests and peers use (0 for zero-based regions)
  uint64_t length = 0;        ///< bytes
  std::byte* host = nullptr;  ///< the same bytes as mapped here; not owned
  AccessFlags access{};
};

class RegionTable {
 public:
  /// `max_regions`: 2..2^20, rounded up to a power of two. `seed` makes keys hard to guess and replayable.
  RegionTable(uint32_t max_regions, uint64_t seed);

  /// Registers memory; returns its key, which serves as lkey and rkey. Keys of a slot do not repeat until the
  /// slot's whole generation space (2^32 / capacity()) has been used, and slots are reused oldest first.
  /// Errors: EINVAL (remote write or atomic without local write, IBTA vol. 1, 11.2.8.2; zero domain; range wraps),
  /// ENOMEM (table full).
  Result<Key> add(const RegionSpec& spec);

  /// The key stops working at once for new look-ups. False when no such key. Follow with retire().
  bool remove(Key key);

  /// The errors of add() that lie in `spec` alone.
  static Result<void> check(const RegionSpec& spec);
  /// ibv_rereg_mr(3), in two steps with a quiescent point of every engine between them: the key stops working; then it
  /// names what `spec` (checked before) says. False when no such key, and nothing changed.
  bool suspend(Key key);
  bool resume(Key key, const RegionSpec& spec);

  /// A peer's SEND with invalidate: the key stops working, for regions that were registered for it
  /// (Access::remote_invalidate) in the same domain. The region itself stays until remove(). Any thread; no locks.
  AccessResult invalidate(Key key, PdId pd);

  /// Makes the slot of a removed key reusable, once. Call after a quiescent point of every engine; until then the
  /// memory must stay mapped too. Ignores a key that is not removed, or is retired already.
  void retire(Key key);

  /// Checks [address, address + length) against the region of `key` and gives the bytes' place.
  /// `length` 0 is fine anywhere, needs no valid key and gives no place (C9-88: the R_Key of a zero-length READ or
  /// WRITE is not validated).
  /// Any thread; no locks.
  Translation translate(Key key, PdId pd, uint64_t address, uint64_t length, AccessFlags needed) const;

  uint32_t capacity() const { return slot_mask_ + 1; }
  /// Regions registered now. Removed ones hold their slots until retire() without counting here. Control thread.
  uint32_t used() const { return used_; }

 private:
  struct alignas(64) Slot {
    std::atomic<uint32_t> key{0};  // 0: no region. Stored last on add, first on remove.
    PdId pd = 0;
    AccessFlags access{};
    uint64_t address = 0;
    uint64_t length = 0;
    std::byte* host = nullptr;
    // Control thread only.
    uint32_t generation = 0;
    Key issued = 0;   // from add() to remove(), invalidated or not
    Key removed = 0;  // awaits retire()

    void set(const RegionSpec& spec) {
      pd = spec.pd;
      access = spec.access;
      address = spec.address;
      length = spec.length;
      host = spec.host;
    }
  };
  static_assert(sizeof(Slot) == 64);

  uint32_t slot_of(Key key) const { return (key >> generation_bits_) & slot_mask_; }
  Key next_key(uint32_t slot);

  uint32_t slot_mask_;
  uint32_t generation_bits_;
  uint64_t key_salt_;
  uint32_t used_ = 0;
  std::unique_ptr<Slot[]> slots_;
  std::deque<uint32_t> free_;  // oldest first
};

inline Translation RegionTable::translate(Key key, PdId pd, uint64_t address, uint64_t length,
                                          AccessFlags needed) const {
  if (length == 0) [[unlikely]]
    return {AccessResult::ok, nullptr};
  const Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.key.load(std::memory_order_acquire) != key) return {};
  if (slot.pd != pd) return {AccessResult::wrong_domain, nullptr};
  if (!slot.access.has_all(needed)) return {AccessResult::not_permitted, nullptr};
  // Written so that no sum can wrap.
  const uint64_t offset = address - slot.address;
  if (address < slot.address || offset > slot.length || length > slot.length - offset) {
    return {AccessResult::out_of_bounds, nullptr};
  }
  return {AccessResult::ok, slot.host + offset};
}

}  // namespace uroce::memory
