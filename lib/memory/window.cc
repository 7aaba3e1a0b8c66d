// Memory windows in the region table: bind, invalidate and access checks (IBTA vol. 1, 10.6.7).
#include <cerrno>
#include <optional>
#include <thread>

#include "memory/region_table.h"

namespace uroce::memory {

namespace {

constexpr AccessFlags kRemote =
    AccessFlags(Access::remote_write) | Access::remote_read | Access::remote_atomic | Access::flush_global;

/// The exclusive right to change a window. The window's fields are stored with release, so that a thread which reads a
/// new field and then `sequence` sees that the window is being changed.
class Turn {
 public:
  /// Not taken when another thread has it, or when the slot has no window.
  explicit Turn(std::atomic<uint32_t>& sequence) : sequence_(sequence) {
    uint32_t seen = sequence.load(std::memory_order_relaxed);
    taken_ = (seen & 1) == 0 && sequence.compare_exchange_strong(seen, seen + 1, std::memory_order_acq_rel);
  }
  ~Turn() {
    if (taken_) sequence_.fetch_add(1, std::memory_order_release);
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  explicit operator bool() const { return taken_; }
  /// Never gives the right back: nobody can change the window any more.
  void keep() { taken_ = false; }

 private:
  std::atomic<uint32_t>& sequence_;
  bool taken_;
};

WindowType type_of(uint32_t window) { return static_cast<WindowType>(window & 0xff); }

}  // namespace

Result<Key> RegionTable::add_window(PdId pd, WindowType type, const KeyState* as) {
  if (pd == 0)
    return fail(EINVAL,
                "cannot allocate a memory window: protection domain 0 does not exist; pass one that was allocated");
  const auto taken = take_slot(as);
  if (!taken) return std::unexpected(taken.error());
  const auto [index, key] = *taken;
  Slot& slot = slots_[index];
  slot.pd.store(pd, std::memory_order_relaxed);
  slot.access.store(0, std::memory_order_relaxed);
  slot.window.store((key & ~kTagMask) | static_cast<uint32_t>(type), std::memory_order_relaxed);
  slot.address.store(0, std::memory_order_relaxed);
  slot.length.store(0, std::memory_order_relaxed);
  slot.host = nullptr;
  slot.bound.store(0, std::memory_order_relaxed);
  slot.parent.store(0, std::memory_order_relaxed);
  slot.issued = key;
  slot.sequence.fetch_add(1, std::memory_order_release);  // even: from now on engines may bind it
  // Where its region has gone meanwhile, it stays unbound: no access went through it any more.
  if (as != nullptr && as->bound) (void)bind(*as->bound);
  return key;
}

void RegionTable::end_window(Slot& slot) {
  // An engine keeps its turn only for the time of a few stores.
  while (true) {
    if (Turn turn(slot.sequence); turn) {
      turn.keep();
      break;
    }
    std::this_thread::yield();
  }
  if (slot.key.load(std::memory_order_relaxed) != 0) release_parent(slot);
}

void RegionTable::release_parent(const Slot& slot) {
  const Key parent = slot.parent.load(std::memory_order_relaxed);
  Slot& region = slots_[slot_of(parent)];
  // A region that took the slot since has other windows. The slot cannot change hands between this check and the
  // decrement: see retire().
  if (region.key.load(std::memory_order_acquire) != parent) return;
  // Never below 0: resume() sets the count to 0.
  uint32_t bound = region.bound.load(std::memory_order_relaxed);
  while (bound != 0 && !region.bound.compare_exchange_weak(bound, bound - 1, std::memory_order_relaxed)) {
  }
}

uint32_t RegionTable::windows(Key key) const {
  const Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.key.load(std::memory_order_acquire) != key || slot.window.load(std::memory_order_relaxed) != 0) {
    return 0;
  }
  return slot.bound.load(std::memory_order_relaxed);
}

/// Returns the region, or nullptr if the window must not be bound to it.
const RegionTable::Slot* RegionTable::region_to_bind(const BindSpec& spec) const {
  const Slot& region = slots_[slot_of(spec.region)];
  if (spec.region == 0 || region.key.load(std::memory_order_acquire) != spec.region) return nullptr;
  if (region.window.load(std::memory_order_relaxed) != 0) return nullptr;
  // C10-72: window, region and queue pair have the same domain.
  if (region.pd.load(std::memory_order_relaxed) != spec.pd) return nullptr;
  const AccessFlags access = region.access_flags();
  if (!access.has(Access::mw_bind)) return nullptr;  // C10-73
  // C10-74: remote write access needs local write access to the region.
  if (spec.access.has_any(Access::remote_write | Access::remote_atomic) && !access.has(Access::local_write)) {
    return nullptr;
  }
  if (spec.access.has(Access::flush_global) && !access.has(Access::flush_global)) return nullptr;
  if (check_bounds(region, spec.address, spec.length).result != AccessResult::ok) return nullptr;  // C10-75
  return &region;
}

bool RegionTable::may_bind(const Slot& slot, const BindSpec& spec) const {
  const uint32_t window = slot.window.load(std::memory_order_relaxed);
  if (window == 0 || slot.is_null() || ((window ^ spec.key) & ~kTagMask) != 0) return false;
  if (slot.pd.load(std::memory_order_relaxed) != spec.pd) return false;
  if (spec.access.without(kRemote | Access::zero_based) != AccessFlags{}) return false;
  if (type_of(window) == WindowType::type1) return !spec.access.has(Access::zero_based);  // o10-36.2.2
  // o10-37.2.30, o10-37.2.40: a type 2 window must be unbound, and a bind cannot unbind it.
  return slot.key.load(std::memory_order_relaxed) == 0 && spec.length != 0;
}

bool RegionTable::bind(const BindSpec& spec) {
  if (elsewhere_ != nullptr) [[unlikely]]
    return elsewhere_->bind(spec);
  Slot& slot = slots_[slot_of(spec.key)];
  // Check before taking the turn too, so that a work request without the right to bind cannot disturb look-ups.
  if (spec.key == 0 || !may_bind(slot, spec)) return false;
  if (spec.length != 0 && region_to_bind(spec) == nullptr) return false;
  const Turn turn(slot.sequence);
  if (!turn || !may_bind(slot, spec)) return false;
  if (slot.key.load(std::memory_order_relaxed) != 0) {
    slot.key.store(0, std::memory_order_release);
    release_parent(slot);
  }
  if (spec.length == 0) return true;
  slots_[slot_of(spec.region)].bound.fetch_add(1, std::memory_order_relaxed);
  slot.access.store(spec.access.bits(), std::memory_order_release);
  slot.address.store(spec.address, std::memory_order_release);
  slot.length.store(spec.length, std::memory_order_release);
  slot.bound.store(spec.qpn, std::memory_order_release);
  slot.parent.store(spec.region, std::memory_order_release);
  slot.key.store(spec.key, std::memory_order_release);
  return true;
}

AccessResult RegionTable::invalidate_window(Slot& slot, Key key, PdId pd, uint32_t qpn) {
  if (slot.pd.load(std::memory_order_relaxed) != pd) return AccessResult::wrong_domain;
  if (type_of(slot.window.load(std::memory_order_relaxed)) != WindowType::type2) return AccessResult::not_permitted;
  const Turn turn(slot.sequence);
  if (!turn || slot.key.load(std::memory_order_relaxed) != key) return AccessResult::bad_key;
  if (slot.bound.load(std::memory_order_relaxed) != qpn) return AccessResult::not_permitted;
  slot.key.store(0, std::memory_order_release);
  release_parent(slot);
  return AccessResult::ok;
}

Translation RegionTable::translate_window(const Slot& slot, Key key, PdId pd, uint64_t address, uint64_t length,
                                          AccessFlags needed, uint32_t qpn) const {
  if (slot.is_null()) return translate_null(slot, pd, length, needed);
  const uint32_t sequence = slot.sequence.load(std::memory_order_acquire);
  if ((sequence & 1) != 0 || slot.key.load(std::memory_order_acquire) != key) return {};
  const auto access = AccessFlags::from_bits(slot.access.load(std::memory_order_acquire));
  const uint64_t first = slot.address.load(std::memory_order_acquire);
  const uint64_t bytes = slot.length.load(std::memory_order_acquire);
  const uint32_t owner = slot.bound.load(std::memory_order_acquire);
  const Key parent = slot.parent.load(std::memory_order_acquire);
  const WindowType type = type_of(slot.window.load(std::memory_order_relaxed));
  if (slot.sequence.load(std::memory_order_relaxed) != sequence) return {};

  if (slot.pd.load(std::memory_order_relaxed) != pd) return {AccessResult::wrong_domain, nullptr};
  if (type == WindowType::type2 && owner != qpn) return {AccessResult::not_permitted, nullptr};
  // A window's key is not an lkey.
  if (!needed.has_any(kRemote) || !access.has_all(needed)) return {AccessResult::not_permitted, nullptr};
  const uint64_t offset = access.has(Access::zero_based) ? address : address - first;
  if (offset > bytes || length > bytes - offset) return {AccessResult::out_of_bounds, nullptr};
  const Slot& region = slots_[slot_of(parent)];
  if (region.key.load(std::memory_order_acquire) != parent) return {};
  if (region.window.load(std::memory_order_relaxed) != 0 || region.pd.load(std::memory_order_relaxed) != pd) return {};
  // resume() may have changed the region since the bind.
  const AccessFlags own = region.access_flags();
  const bool writes = needed.has_any(Access::remote_write | Access::remote_atomic);
  const bool flushes = needed.has(Access::flush_global) && !own.has(Access::flush_global);
  if (!own.has(Access::mw_bind) || (writes && !own.has(Access::local_write)) || flushes) {
    return {AccessResult::not_permitted, nullptr};
  }
  return check_bounds(region, first + offset, length);
}

}  // namespace uroce::memory
