#include "control/qpn_allocator.h"

#include <bit>

namespace uroce::control {
namespace {

constexpr uint32_t kQpnBits = 24;

constexpr bool reserved(uint32_t qpn) { return qpn <= 1 || qpn == 0xffffff; }

}  // namespace

QpnAllocator::QpnAllocator(uint32_t engine, uint32_t index_bits, uint32_t slots, uint64_t seed)
    : engine_(engine),
      index_bits_(index_bits),
      slot_bits_(static_cast<uint32_t>(std::countr_zero(slots))),
      generation_mask_((1u << (kQpnBits - index_bits_ - slot_bits_)) - 1),
      random_(seed) {}

uint32_t QpnAllocator::compose(uint32_t slot) const {
  return (generations_[slot] << slot_bits_ | slot) << index_bits_ | engine_;
}

std::optional<uint32_t> QpnAllocator::take() {
  while (true) {
    uint32_t slot = 0;
    if (generations_.size() < std::size_t{1} << slot_bits_) {
      slot = static_cast<uint32_t>(generations_.size());
      generations_.push_back(static_cast<uint32_t>(random_.next()) & generation_mask_);
    } else if (!free_.empty()) {
      slot = free_.front();
      free_.pop_front();
      generations_[slot] = (generations_[slot] + 1) & generation_mask_;
    } else {
      return std::nullopt;
    }
    if (reserved(compose(slot))) generations_[slot] = (generations_[slot] + 1) & generation_mask_;
    // Without generation bits the slot has no other number: a reserved one is never used.
    if (!reserved(compose(slot))) return compose(slot);
  }
}

void QpnAllocator::give_back(uint32_t qpn) { free_.push_back((qpn >> index_bits_) & ((1u << slot_bits_) - 1)); }

}  // namespace uroce::control
