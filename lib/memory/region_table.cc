#include "memory/region_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <numeric>
#include <utility>

namespace uroce::memory {

namespace {

constexpr uint32_t kMinRegions = 2;
constexpr uint32_t kMaxRegions = 1u << 20;
/// The bytes of a null region, for one packet.
constexpr std::array<std::byte, mtu_bytes(Mtu::mtu4096)> kZeros{};

}  // namespace

RegionTable::RegionTable(uint32_t max_regions, const Secret& seed)
    : slot_mask_(std::bit_ceil(std::clamp(max_regions, kMinRegions, kMaxRegions)) - 1),
      generation_bits_(32 - static_cast<uint32_t>(std::popcount(slot_mask_))),
      permute_(seed),
      slots_(std::make_unique<Slot[]>(capacity())),
      touched_(capacity()),
      free_(capacity()) {
  std::iota(free_.begin(), free_.end(), 0);
  // A key is no hint at the slot of another one.
  SecretStream draw(seed.derive("slots"));
  for (std::size_t left = free_.size(); left > 1; --left) std::swap(free_[left - 1], free_[draw.below(left)]);
}

RegionTable::RegionTable(KeyLookups& elsewhere, uint32_t learns) : RegionTable(learns, Secret(0)) {
  elsewhere_ = &elsewhere;
}

void RegionTable::learn(Key key, const RegionSpec& region) {
  Slot& slot = slots_[slot_of(key)];
  if (slot.key.load(std::memory_order_relaxed) != 0) return;
  slot.set(region);
  slot.key.store(key, std::memory_order_release);
}

void RegionTable::unlearn(Key key) {
  Slot& slot = slots_[slot_of(key)];
  if (slot.key.load(std::memory_order_relaxed) == key) slot.key.store(0, std::memory_order_release);
}

std::optional<RegionSpec> RegionTable::region(Key key) const {
  const Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.key.load(std::memory_order_acquire) != key) return std::nullopt;
  if (slot.window.load(std::memory_order_relaxed) != 0) return std::nullopt;
  return RegionSpec{.pd = slot.pd.load(std::memory_order_relaxed),
                    .address = slot.address.load(std::memory_order_relaxed),
                    .length = slot.length.load(std::memory_order_relaxed),
                    .host = slot.host,
                    .access = slot.access_flags()};
}

[[gnu::cold]] Translation RegionTable::translate_elsewhere(Key key, PdId pd, uint64_t address, uint64_t length,
                                                           AccessFlags needed, uint32_t qpn) const {
  if (elsewhere_ == nullptr) return {};
  return elsewhere_->translate(key, pd, address, length, needed, qpn);
}

Key RegionTable::key_of(uint32_t slot, uint32_t use) const {
  // A permutation per slot: nobody can compute one region's keys from another's, or a slot's next key.
  return slot << generation_bits_ | permute_(use & ((1u << generation_bits_) - 1), generation_bits_, slot);
}

uint32_t RegionTable::next_use(uint32_t slot) const {
  // A window used its key with any low 8 bits, so the slot's next key needs other high bits.
  const uint32_t window = slots_[slot].window.load(std::memory_order_relaxed);
  uint32_t use = slots_[slot].generation;
  while (window != 0 && ((key_of(slot, use) ^ window) & ~kTagMask) == 0) ++use;
  return use;
}

KeyNumbers RegionTable::numbers() const {
  KeyNumbers numbers{.permutation = permute_.key(), .uses = std::vector<uint32_t>(capacity()), .free = {}};
  std::vector<uint8_t> left_out(capacity());
  for (uint32_t slot = 0; slot < capacity(); ++slot) {
    if (touched_[slot] == 0) continue;
    numbers.uses[slot] = next_use(slot);
    left_out[slot] = in_use(slot) ? 1 : 0;
  }
  numbers.free.reserve(free_.size());
  for (const uint32_t slot : free_) {
    if (std::exchange(left_out[slot], uint8_t{1}) == 0) numbers.free.push_back(slot);
  }
  return numbers;
}

bool RegionTable::go_on_with(const KeyNumbers& numbers) {
  std::vector<bool> listed(capacity());
  for (const uint32_t slot : numbers.free) {
    if (slot >= capacity() || listed[slot]) return false;
    listed[slot] = true;
  }
  if (numbers.uses.size() != capacity()) return false;
  permute_ = SecretPermutation(numbers.permutation);
  free_.assign(numbers.free.begin(), numbers.free.end());
  for (uint32_t slot = 0; slot < capacity(); ++slot) {
    if (!listed[slot]) free_.push_back(slot);
    if (numbers.uses[slot] == 0 && touched_[slot] == 0) continue;
    slots_[slot].generation = numbers.uses[slot];
    touched_[slot] = 1;
  }
  return true;
}

Key RegionTable::next_key(uint32_t slot) {
  Key key = 0;
  while (key == 0) {
    const uint32_t use = next_use(slot);
    key = key_of(slot, use);
    slots_[slot].generation = use + 1;
  }
  touched_[slot] = 1;
  return key;
}

Result<std::pair<uint32_t, Key>> RegionTable::take_slot(const KeyState* as, SlotChoice slot) {
  if (as != nullptr) {
    const uint32_t index = slot_of(as->key);
    if (as->key == 0 || in_use(index)) {
      return fail(EINVAL,
                  fmt::format("cannot give key {:#x} again: its slot {} of {} is in use", as->key, index, capacity()));
    }
    ++used_;
    touched_[index] = 1;
    return std::pair(index, as->key);
  }
  if (slot == SlotChoice::first && !in_use(0)) {
    ++used_;
    return std::pair(0u, next_key(0));
  }
  while (!free_.empty() && in_use(free_.front())) free_.pop_front();
  if (free_.empty()) {
    return fail(ENOMEM, fmt::format("cannot add a memory region or window: all {} of the device are in use; deregister "
                                    "some, or raise max_mr",
                                    capacity()));
  }
  const uint32_t index = free_.front();
  free_.pop_front();
  ++used_;
  return std::pair(index, next_key(index));
}

Result<void> RegionTable::check(const RegionSpec& spec) {
  if (spec.pd == 0)
    return fail(EINVAL, "cannot register memory: protection domain 0 does not exist; pass one that was allocated");
  if (spec.length != 0 && spec.address + (spec.length - 1) < spec.address) {
    return fail(EINVAL, fmt::format("cannot register {} bytes at {:#x}: they run past the end of the address space; "
                                    "register fewer",
                                    spec.length, spec.address));
  }
  if (spec.access.has_any(Access::remote_write | Access::remote_atomic) && !spec.access.has(Access::local_write)) {
    return fail(EINVAL,
                fmt::format("cannot register memory with access flags {:#x}: remote write and remote atomic need "
                            "local write; add it",
                            spec.access.bits()));
  }
  if (spec.access.has(Access::flush_persistent)) {
    return fail(EOPNOTSUPP,
                "cannot register memory for FLUSH to persistence (access flag 0x200): what peers write here does not "
                "outlive a loss of power; leave the flag out, and let them FLUSH to global visibility (0x100)");
  }
  return {};
}

Result<Key> RegionTable::add(const RegionSpec& spec, const KeyState* as, SlotChoice slot) {
  return issue(spec, false, as, slot);
}

Result<Key> RegionTable::add_null(PdId pd, const KeyState* as) {
  return issue({.pd = pd, .access = Access::local_write}, true, as);
}

Result<Key> RegionTable::issue(const RegionSpec& spec, bool null, const KeyState* as, SlotChoice slot_choice) {
  if (auto ok = check(spec); !ok) return std::unexpected(ok.error());
  const auto taken = take_slot(as, slot_choice);
  if (!taken) return std::unexpected(taken.error());
  const auto [index, key] = *taken;
  Slot& slot = slots_[index];
  slot.set(spec);
  if (null) slot.window.store((key & ~kTagMask) | Slot::kNullType, std::memory_order_relaxed);
  slot.issued = key;
  if (as == nullptr || as->usable) slot.key.store(key, std::memory_order_release);
  return key;
}

KeyState RegionTable::state(Key key) const {
  const Slot& slot = slots_[slot_of(key)];
  const Key usable = slot.key.load(std::memory_order_acquire);
  const uint32_t window = slot.window.load(std::memory_order_relaxed);
  KeyState state{.key = key, .usable = usable != 0};
  if (window == 0 || slot.is_null() || usable == 0) return state;
  state.bound = BindSpec{.key = usable,
                         .pd = slot.pd.load(std::memory_order_relaxed),
                         .qpn = slot.bound.load(std::memory_order_relaxed),
                         .region = slot.parent.load(std::memory_order_relaxed),
                         .address = slot.address.load(std::memory_order_relaxed),
                         .length = slot.length.load(std::memory_order_relaxed),
                         .access = slot.access_flags()};
  return state;
}

Translation RegionTable::translate_null(const Slot& slot, PdId pd, uint64_t length, AccessFlags needed) {
  if (slot.pd.load(std::memory_order_relaxed) != pd) return {AccessResult::wrong_domain, nullptr};
  if (!slot.access_flags().has_all(needed)) return {AccessResult::not_permitted, nullptr};
  if (needed.has(Access::local_write)) return {AccessResult::ok, nullptr};
  if (length > kZeros.size()) return {AccessResult::out_of_bounds, nullptr};
  return {AccessResult::ok, const_cast<std::byte*>(kZeros.data())};  // read alone
}

bool RegionTable::suspend(Key key) {
  Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.issued != key) return false;
  slot.key.store(0, std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_release);
  return true;
}

bool RegionTable::resume(Key key, const RegionSpec& spec) {
  Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.issued != key) return false;
  slot.set(spec);
  slot.key.store(key, std::memory_order_release);
  return true;
}

bool RegionTable::remove(Key key) {
  Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.issued != key) return false;
  if (slot.window.load(std::memory_order_relaxed) != 0 && !slot.is_null()) end_window(slot);
  slot.key.store(0, std::memory_order_release);
  changes_.fetch_add(1, std::memory_order_release);
  slot.issued = 0;
  slot.removed = key;
  --used_;
  return true;
}

AccessResult RegionTable::invalidate(Key key, PdId pd, uint32_t qpn) {
  if (elsewhere_ != nullptr) [[unlikely]]
    return elsewhere_->invalidate(key, pd, qpn);
  Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.key.load(std::memory_order_acquire) != key) return AccessResult::bad_key;
  if (slot.window.load(std::memory_order_relaxed) != 0) return invalidate_window(slot, key, pd, qpn);
  if (slot.pd.load(std::memory_order_relaxed) != pd) return AccessResult::wrong_domain;
  if (!slot.access_flags().has(Access::remote_invalidate)) return AccessResult::not_permitted;
  // The control thread may remove the same key at this moment.
  Key expected = key;
  if (!slot.key.compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) return AccessResult::bad_key;
  changes_.fetch_add(1, std::memory_order_release);
  return AccessResult::ok;
}

AccessResult RegionTable::check_key(Key key, PdId pd, AccessFlags needed, uint32_t qpn) const {
  if (elsewhere_ != nullptr) [[unlikely]]
    return elsewhere_->check_key(key, pd, needed, qpn);
  const Slot& slot = slots_[slot_of(key)];
  if (key == 0 || slot.key.load(std::memory_order_acquire) != key) return AccessResult::bad_key;
  const uint64_t first = slot.address.load(std::memory_order_relaxed);
  if (slot.window.load(std::memory_order_relaxed) == 0) return check_access(slot, pd, first, 0, needed).result;
  const bool from_zero = slot.access_flags().has(Access::zero_based);
  return translate_window(slot, key, pd, from_zero ? 0 : first, 0, needed, qpn).result;
}

void RegionTable::retire(Key key) {
  const uint32_t index = slot_of(key);
  Slot& slot = slots_[index];
  if (key == 0 || slot.removed != key) return;
  slot.removed = 0;
  free_.push_back(index);
}

}  // namespace uroce::memory
