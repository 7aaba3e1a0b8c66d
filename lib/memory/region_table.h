// Memory regions, memory windows and their keys: every access that the wire or a work request asks for is decided here.
//
// Threads: one control thread adds and removes (callers hold the device's control lock); engines look up
// without locks. A region's fields do not change while an engine can be reading them:
//   add     writes the fields, then stores the key (release); a look-up that reads this key (acquire) sees them.
//   remove  stores 0 and nothing else. A look-up that read the key before that goes on reading unchanged fields.
//   suspend, resume  are remove and add for one key: the fields are rewritten after a quiescent point only.
//   retire  is called once every engine has passed a quiescent point since remove(), which orders those last reads
//           before whatever follows. Only now does the slot return to the free list, and only add() rewrites it.
// A window is bound and invalidated by engines while others look it up. Whoever changes one takes its turn by making
// `sequence` odd, and never waits for it; a look-up that saw `sequence` odd, or different before and after, has met a
// change and finds no key. A window has no memory of its own: each access goes on through the region's own checks, so
// that whatever becomes of that region, nothing outside it is reached.
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

/// A window and what a bind makes of it.
struct BindSpec {
  Key key = 0;  ///< the new key: of allocation, but for the low 8 bits, which the consumer chooses
  PdId pd = 0;
  uint32_t qpn = 0;      ///< of the queue pair that binds
  Key region = 0;        ///< its lkey
  uint64_t address = 0;  ///< as the region counts
  uint64_t length = 0;   ///< bytes; 0 unbinds a type 1 window
  AccessFlags access{};  ///< remote accesses; Access::zero_based (type 2): peers count from 0
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

  /// A peer's SEND with invalidate, or a local invalidate: the key stops working, for regions that were registered for
  /// it (Access::remote_invalidate) in the same domain, and for bound type 2 windows by the queue pair that bound them.
  /// The object itself stays until remove(). Any thread; no locks.
  AccessResult invalidate(Key key, PdId pd, uint32_t qpn = 0);

  /// A new window, not bound; returns its first key. remove() and retire() end it. It counts as a region does.
  /// Errors: as add().
  Result<Key> add_window(PdId pd, WindowType type);

  /// Binds a window (IBTA vol. 1, 10.6.7.2). The key that a type 1 window had ends; a type 2 window must have none, and
  /// belongs to the queue pair then (type 2B: queue pair and domain are both checked). False: a rule is broken, or
  /// another engine is changing the window. Any thread; no locks.
  bool bind(const BindSpec& spec);

  /// Windows bound to the region of `key`; 0 when there is no such region. Any thread.
  uint32_t windows(Key key) const;

  /// Makes the slot of a removed key reusable, once. Call after a quiescent point of every engine; until then the
  /// memory must stay mapped too. Ignores a key that is not removed, or is retired already.
  void retire(Key key);

  /// Checks [address, address + length) against the region of `key` and gives the bytes' place.
  /// `length` 0 is fine anywhere, needs no valid key and gives no place (C9-88: the R_Key of a zero-length READ or
  /// WRITE is not validated).
  /// A window's key is good for remote accesses alone, and of type 2 for queue pair `qpn` alone.
  /// Any thread; no locks.
  Translation translate(Key key, PdId pd, uint64_t address, uint64_t length, AccessFlags needed,
                        uint32_t qpn = 0) const;

  uint32_t capacity() const { return slot_mask_ + 1; }
  /// Regions and windows that exist now. Removed ones hold their slots until retire() without counting here. Control
  /// thread.
  uint32_t used() const { return used_; }

 private:
  struct alignas(64) Slot {
    std::atomic<uint32_t> key{0};  // 0: no region, or a window that is not bound. Stored last on add, first on remove.
    std::atomic<PdId> pd{0};
    std::atomic<uint32_t> access{0};
    std::atomic<uint32_t> window{0};  // 0: a region. Else a window's key without its low 8 bits, which hold its type.
    std::atomic<uint64_t> address{0};
    std::atomic<uint64_t> length{0};
    std::byte* host = nullptr;          // regions
    std::atomic<uint32_t> sequence{1};  // windows: odd while one is changed; always for what is none
    std::atomic<uint32_t> bound{0};     // windows of type 2: the QPN; regions: how many windows
    std::atomic<uint32_t> parent{0};    // windows: the region's key
    // Control thread only.
    uint32_t generation = 0;
    Key issued = 0;   // from add() to remove(), invalidated or not
    Key removed = 0;  // awaits retire()

    void set(const RegionSpec& spec) {
      pd.store(spec.pd, std::memory_order_relaxed);
      access.store(spec.access.bits(), std::memory_order_relaxed);
      window.store(0, std::memory_order_relaxed);
      address.store(spec.address, std::memory_order_relaxed);
      length.store(spec.length, std::memory_order_relaxed);
      host = spec.host;
      bound.store(0, std::memory_order_relaxed);
    }
  };
  static_assert(sizeof(Slot) == 64);
  static_assert(std::atomic<uint64_t>::is_always_lock_free);

  static constexpr uint32_t kTagMask = 0xff;  // of a window's key, the consumer's part

  static AccessFlags access_of(const Slot& slot) {
    return AccessFlags::from_bits(slot.access.load(std::memory_order_relaxed));
  }
  static Translation place_in(const Slot& slot, uint64_t address, uint64_t length);
  Result<uint32_t> take_slot();
  Translation translate_window(const Slot& slot, Key key, PdId pd, uint64_t address, uint64_t length,
                               AccessFlags needed, uint32_t qpn) const;
  AccessResult invalidate_window(Slot& slot, Key key, PdId pd, uint32_t qpn);
  const Slot* region_to_bind(const BindSpec& spec) const;
  bool may_bind(const Slot& slot, const BindSpec& spec) const;
  void release_parent(const Slot& slot);
  void end_window(Slot& slot);
  uint32_t slot_of(Key key) const { return (key >> generation_bits_) & slot_mask_; }
  Key next_key(uint32_t slot);

  uint32_t slot_mask_;
  uint32_t generation_bits_;
  uint64_t key_salt_;
  uint32_t used_ = 0;
  std::unique_ptr<Slot[]> slots_;
  std::deque<uint32_t> free_;  // oldest first
};

inline Translation RegionTable::place_in(const Slot& slot, uint64_t address, uint64_t length) {
  // Written so that no sum can wrap.
  const uint64_t first = slot.address.load(std::memory_order_relaxed);
  const uint64_t bytes = slot.length.load(std::memory_order_relaxed);
  const uint64_t offset = address - first;
  if (address < first || offset > bytes || length > bytes - offset) return {AccessResult::out_of_bounds, nullptr};
  return {AccessResult::ok, slot.host + offset};
}

inline Translation RegionTable::translate(Key key, PdId pd, uint64_t address, uint64_t length, AccessFlags needed,
                                          uint32_t qpn) const {
  if (length == 0) [[unlikely]]
    return {AccessResult::ok, nullptr};
  const Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.key.load(std::memory_order_acquire) != key) return {};
  if (slot.window.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return translate_window(slot, key, pd, address, length, needed, qpn);
  if (slot.pd.load(std::memory_order_relaxed) != pd) return {AccessResult::wrong_domain, nullptr};
  if (!access_of(slot).has_all(needed)) return {AccessResult::not_permitted, nullptr};
  return place_in(slot, address, length);
}

}  // namespace uroce::memory
