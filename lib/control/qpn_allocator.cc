#include "control/qpn_allocator.h"

#include <bit>

namespace uroce::control {
namespace {

constexpr uint32_t kQpnBits = 24;

constexpr bool reserved(uint32_t qpn) { return qpn <= 1 || qpn == 0xffffff; }

}  // namespace

QpnAllocator::QpnAllocator(uint32_t engine, uint32_t index_bits, uint32_t slots, const Secret& seed)
    : engine_(engine),
      index_bits_(index_bits),
      slot_bits_(static_cast<uint32_t>(std::countr_zero(slots))),
      generation_bits_(kQpnBits - index_bits_ - slot_bits_),
      permute_(seed),
      uses_(slots),
      in_use_(slots) {}

uint32_t QpnAllocator::compose(uint32_t slot) const {
  const uint32_t count = uses_[slot] & ((1u << generation_bits_) - 1);
  const uint32_t generation = generation_bits_ == 0 ? 0 : permute_(count, generation_bits_, slot + 1);
  return (generation << slot_bits_ | slot) << index_bits_ | engine_;
}

uint32_t QpnAllocator::fresh_slot() {
  const uint32_t count = fresh_++;
  return slot_bits_ == 0 ? 0 : permute_(count, slot_bits_);
}

std::optional<uint32_t> QpnAllocator::take() {
  while (true) {
    uint32_t slot = 0;
    if (fresh_ < std::size_t{1} << slot_bits_) {
      slot = fresh_slot();
      if (in_use_[slot]) continue;
    } else if (!free_.empty()) {
      slot = free_.front();
      free_.pop_front();
      if (in_use_[slot]) continue;
      ++uses_[slot];
    } else {
      return std::nullopt;
    }
    if (reserved(compose(slot))) ++uses_[slot];
    // Without generation bits the slot has no other number: a reserved one is never used.
    if (reserved(compose(slot))) continue;
    in_use_[slot] = true;
    return compose(slot);
  }
}

bool QpnAllocator::take(uint32_t qpn) {
  const uint32_t slot = slot_of(qpn);
  const bool ours = qpn >> kQpnBits == 0 && (qpn & ((1u << index_bits_) - 1)) == engine_;
  if (!ours || reserved(qpn) || in_use_[slot]) return false;
  in_use_[slot] = true;
  return true;
}

QpnNumbers QpnAllocator::numbers() const {
  QpnNumbers numbers{.permutation = permute_.key(), .fresh = fresh_, .uses = uses_, .free = {}};
  std::vector<bool> listed(uses_.size());
  for (const uint32_t slot : free_) {
    if (!in_use_[slot] && !listed[slot]) numbers.free.push_back(slot);
    listed[slot] = true;
  }
  return numbers;
}

bool QpnAllocator::go_on_with(const QpnNumbers& numbers) {
  if (fresh_ != 0 || numbers.uses.size() != uses_.size() || numbers.fresh > uses_.size()) return false;
  std::vector<bool> listed(uses_.size());
  for (const uint32_t slot : numbers.free) {
    if (slot >= uses_.size() || listed[slot]) return false;
    listed[slot] = true;
  }
  permute_ = SecretPermutation(numbers.permutation);
  uses_ = numbers.uses;
  free_.assign(numbers.free.begin(), numbers.free.end());
  for (fresh_ = 0; fresh_ < numbers.fresh;) {
    if (const uint32_t slot = fresh_slot(); !listed[slot]) free_.push_back(slot);
  }
  return true;
}

void QpnAllocator::give_back(uint32_t qpn) {
  in_use_[slot_of(qpn)] = false;
  free_.push_back(slot_of(qpn));
}

}  // namespace uroce::control
