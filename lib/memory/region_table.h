// The table of memory regions, memory windows and their keys. It checks every access by a packet or a work request.
//
// Threads: one control thread adds and removes (callers hold the device's control lock). Engines look up without locks.
// A region's fields do not change while an engine can read them:
//   add     writes the fields, then stores the key (release). A look-up that reads this key (acquire) sees the fields.
//   remove  stores 0 as key and changes nothing else. A look-up that has read the key before still reads the old
//   fields. suspend, resume  do the same as remove and add, but keep the key. The fields change only after a quiescent
//   point. retire  is called when every engine has passed a quiescent point since remove(). This orders the engines'
//   last reads
//           before all that follows. The slot then returns to the free list, and the next add() may rewrite it.
// Engines bind and invalidate a window while others look it up. The thread that changes a window makes `sequence` odd.
// If it is odd already, another thread is changing the window, and the call fails instead of waiting. A look-up that
// reads an odd `sequence`, or different values before and after, fails as if there were no key. A window has no memory
// of its own: each access through it passes the region's checks too, and so never reaches memory outside the region.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>

#include "base/secret.h"
#include "memory/access_check.h"
#include "memory/key_slot.h"

namespace uroce::memory {

/// The parameters of a bind.
struct BindSpec {
  Key key = 0;  ///< the window's new key: as allocated, except for the low 8 bits, which the application chooses
  PdId pd = 0;
  uint32_t qpn = 0;      ///< the queue pair that binds
  Key region = 0;        ///< the region's lkey
  uint64_t address = 0;  ///< in the region's addresses
  uint64_t length = 0;   ///< bytes; 0 unbinds a type 1 window
  AccessFlags access{};  ///< remote accesses; Access::zero_based (type 2): the window's addresses begin at 0
};

/// A key as another table had it.
struct KeyState {
  Key key = 0;                      ///< as it was given out first
  bool usable = true;               ///< of a region: not invalidated
  std::optional<BindSpec> bound{};  ///< of a window
};

/// The slot of a new key.
enum class SlotChoice : uint8_t {
  secret,
  first,  ///< the same in every daemon, if it is free: for a key that no peer sees, and that begins with the daemon
};

/// The keys to come of a table, for another one of the same capacity: no key of the past comes to life again there.
struct KeyNumbers {
  SecretPermutation::Key permutation{};
  std::vector<uint32_t> uses{};  ///< by slot
  std::vector<uint32_t> free{};  ///< slots, oldest first
};

/// A table without keys of its own asks this of keys that it has not learnt (core/tape.h of the transport). The
/// functions are as RegionTable's.
class KeyLookups {
 public:
  virtual ~KeyLookups() = default;
  virtual Translation translate(Key key, PdId pd, uint64_t address, uint64_t length, AccessFlags needed,
                                uint32_t qpn) = 0;
  virtual AccessResult check_key(Key key, PdId pd, AccessFlags needed, uint32_t qpn) = 0;
  virtual AccessResult invalidate(Key key, PdId pd, uint32_t qpn) = 0;
  virtual bool bind(const BindSpec& spec) = 0;
};

class RegionTable {
 public:
  /// A table without keys, for one engine: each look-up asks `elsewhere`, which outlives it, until learn() was told of
  /// the key. `learns`: about so many keys.
  explicit RegionTable(KeyLookups& elsewhere, uint32_t learns = 2);
  /// From now on a look-up of `key` finds this region here, if there is room, until unlearn().
  void learn(Key key, const RegionSpec& region);
  void unlearn(Key key);
  /// `max_regions`: 2..2^20, rounded up to a power of two. The keys follow from `seed`: any number of them does not
  /// tell another one, and they are the same in a replay.
  RegionTable(uint32_t max_regions, const Secret& seed);

  /// Registers memory; returns its key, which serves as lkey and rkey. Keys of a slot do not repeat until the
  /// slot's whole generation space (2^32 / capacity()) has been used. Slots are taken in a secret order, and reused
  /// oldest first: a stranger finds one of n keys by 2^32 / n guesses.
  /// Errors: EINVAL (remote write or atomic without local write, IBTA vol. 1, 11.2.8.2; zero domain; range wraps),
  /// EOPNOTSUPP (persistence), ENOMEM (table full). `as`: the key that it had in a table of the same capacity; EINVAL
  /// where another one has its slot.
  Result<Key> add(const RegionSpec& spec, const KeyState* as = nullptr, SlotChoice slot = SlotChoice::secret);

  /// Adds a null region (ibv_alloc_null_mr(3)): local accesses of any address and length are allowed. They read
  /// zeros, and writes are dropped. Errors: as add().
  Result<Key> add_null(PdId pd, const KeyState* as = nullptr);

  /// New look-ups of the key fail at once. Returns false when there is no such key. Call retire() later.
  bool remove(Key key);

  /// The errors of add() that depend on `spec` alone.
  static Result<void> check(const RegionSpec& spec);
  /// ibv_rereg_mr(3) in two steps, with a quiescent point of every engine between them. suspend() makes look-ups of the
  /// key fail. resume() gives the key the region of `spec`; call check() before. Both return false and change nothing
  /// when there is no such key.
  bool suspend(Key key);
  bool resume(Key key, const RegionSpec& spec);

  /// For a peer's SEND with invalidate, or a local invalidate: look-ups of the key fail from now on. Allowed for
  /// regions of the same domain that were registered with Access::remote_invalidate, and for type 2 windows by the
  /// queue pair that bound them. The object stays until remove(). Any thread; no locks.
  AccessResult invalidate(Key key, PdId pd, uint32_t qpn = 0);

  /// Allocates an unbound window and returns its first key. Free it with remove() and retire(). It takes a place in the
  /// table as a region does. Errors: as add().
  Result<Key> add_window(PdId pd, WindowType type, const KeyState* as = nullptr);

  /// The region of a key for another table to learn; nullopt: it has none, or a null region, or is a window's. The
  /// answer holds until changes() tells something else. Any thread.
  std::optional<RegionSpec> region(Key key) const;
  /// Tells another number after a key has ceased to open its region. Any thread.
  uint64_t changes() const { return changes_.load(std::memory_order_acquire); }

  /// For add() and its like of another table, while no engine binds or invalidates. `key`: as issued.
  KeyState state(Key key) const;
  /// For go_on_with() of another table. Control thread.
  KeyNumbers numbers() const;
  /// Before add() has taken any given key. Slots that are neither free nor taken later are free, too. False, with
  /// nothing changed: they are no numbers of a table of this capacity.
  bool go_on_with(const KeyNumbers& numbers);

  /// Binds a window (IBTA vol. 1, 10.6.7.2). A type 1 window's earlier key becomes invalid. A type 2 window must be
  /// unbound before, and then belongs to the queue pair (type 2B: accesses are checked against queue pair and domain).
  /// Returns false when a rule is broken, or when another engine is changing the window. Any thread; no locks.
  bool bind(const BindSpec& spec);

  /// The number of windows bound to the region of `key`; 0 when there is no such region. Any thread.
  uint32_t windows(Key key) const;

  /// Frees the slot of a removed key. Call it after a quiescent point of every engine; until then the memory must stay
  /// mapped, too. Ignores a key that is not removed, or already retired.
  void retire(Key key);

  /// Checks the access to [address, address + length) by `key`, and returns where the bytes are; access_check.h has the
  /// rules. With `length` 0 it always succeeds, without a valid key, and returns nullptr as place (C9-88: the R_Key of
  /// a zero-length READ or WRITE is not validated). A window's key allows remote accesses only, and a type 2 window
  /// only those by queue pair `qpn`. A null region's place is nullptr for writes, which the caller drops, and one
  /// packet of zeros for reads. Any thread; no locks.
  Translation translate(Key key, PdId pd, uint64_t address, uint64_t length, AccessFlags needed,
                        uint32_t qpn = 0) const;

  /// As translate(), of all the bytes that the key opens, for a FLUSH of a whole region.
  AccessResult check_key(Key key, PdId pd, AccessFlags needed, uint32_t qpn) const;

  uint32_t capacity() const { return slot_mask_ + 1; }
  /// The number of regions and windows. Removed ones are not counted, although they keep their slots until retire().
  /// Control thread.
  uint32_t used() const { return used_; }

 private:
  using Slot = KeySlot;

  Translation translate_elsewhere(Key key, PdId pd, uint64_t address, uint64_t length, AccessFlags needed,
                                  uint32_t qpn) const;

  static constexpr uint32_t kTagMask = 0xff;  // the application's part of a window's key

  /// The key of a new region; `null`: one without memory.
  Result<Key> issue(const RegionSpec& spec, bool null, const KeyState* as, SlotChoice slot = SlotChoice::secret);
  /// A slot and its key.
  Result<std::pair<uint32_t, Key>> take_slot(const KeyState* as, SlotChoice slot = SlotChoice::secret);
  Key next_key(uint32_t slot);
  static Translation translate_null(const Slot& slot, PdId pd, uint64_t length, AccessFlags needed);
  Translation translate_window(const Slot& slot, Key key, PdId pd, uint64_t address, uint64_t length,
                               AccessFlags needed, uint32_t qpn) const;
  AccessResult invalidate_window(Slot& slot, Key key, PdId pd, uint32_t qpn);
  const Slot* region_to_bind(const BindSpec& spec) const;
  bool may_bind(const Slot& slot, const BindSpec& spec) const;
  void release_parent(const Slot& slot);
  void end_window(Slot& slot);
  bool in_use(uint32_t slot) const { return slots_[slot].issued != 0 || slots_[slot].removed != 0; }
  uint32_t slot_of(Key key) const { return (key >> generation_bits_) & slot_mask_; }
  Key key_of(uint32_t slot, uint32_t use) const;
  /// The count of the slot's next key.
  uint32_t next_use(uint32_t slot) const;

  KeyLookups* elsewhere_ = nullptr;
  uint32_t slot_mask_;
  uint32_t generation_bits_;
  SecretPermutation permute_;
  uint32_t used_ = 0;
  std::unique_ptr<Slot[]> slots_;
  std::atomic<uint64_t> changes_{0};
  // By slot: 0 where it is as new. numbers() has engines wait, and reading all slots would take milliseconds.
  std::vector<uint8_t> touched_;
  std::deque<uint32_t> free_;  // oldest first; slots that add() took with a given key may be among them
};

inline Translation RegionTable::translate(Key key, PdId pd, uint64_t address, uint64_t length, AccessFlags needed,
                                          uint32_t qpn) const {
  if (length == 0) [[unlikely]]
    return {AccessResult::ok, nullptr};
  const Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.key.load(std::memory_order_acquire) != key) [[unlikely]]
    return translate_elsewhere(key, pd, address, length, needed, qpn);
  if (slot.window.load(std::memory_order_relaxed) != 0) [[unlikely]]
    return translate_window(slot, key, pd, address, length, needed, qpn);
  return check_access(slot, pd, address, length, needed);
}

}  // namespace uroce::memory
