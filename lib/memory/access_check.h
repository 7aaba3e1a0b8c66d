// The check of an access by lkey or rkey to a memory region: protection domain, access flags, bounds. window.cc has the
// further checks of a memory window. RegionTable::translate() finds the slot of the key and calls them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <uroce/types.h>

#include "memory/key_slot.h"

namespace uroce::memory {

enum class AccessResult : uint8_t { ok, bad_key, wrong_domain, not_permitted, out_of_bounds };

struct Translation {
  AccessResult result = AccessResult::bad_key;
  std::byte* host = nullptr;  ///< where the bytes are in this process; valid only with `ok`
};

/// The bounds: [address, address + length) must be inside the region.
inline Translation check_bounds(const KeySlot& slot, uint64_t address, uint64_t length) {
  // Written so that no sum can wrap.
  const uint64_t first = slot.address.load(std::memory_order_relaxed);
  const uint64_t bytes = slot.length.load(std::memory_order_relaxed);
  const uint64_t offset = address - first;
  if (address < first || offset > bytes || length > bytes - offset) return {AccessResult::out_of_bounds, nullptr};
  return {AccessResult::ok, slot.host + offset};
}

/// An access to the region of `slot`. The caller has compared the key.
inline Translation check_access(const KeySlot& slot, PdId pd, uint64_t address, uint64_t length, AccessFlags needed) {
  if (slot.pd.load(std::memory_order_relaxed) != pd) return {AccessResult::wrong_domain, nullptr};
  if (!slot.access_flags().has_all(needed)) return {AccessResult::not_permitted, nullptr};
  return check_bounds(slot, address, length);
}

/// The same for a region that is described.
inline Translation check_access(const RegionSpec& region, PdId pd, uint64_t address, uint64_t length,
                                AccessFlags needed) {
  KeySlot slot;
  slot.set(region);
  return check_access(slot, pd, address, length, needed);
}

}  // namespace uroce::memory
