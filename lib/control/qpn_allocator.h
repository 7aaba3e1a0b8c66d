// QPNs of one engine: [generation][slot][engine index], 24 bits. The slot indexes the engine's QP table; the
// generation changes with each use, so that late packets of a destroyed QP reach no other. Neither slots nor
// generations come in an order that peers can tell.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/secret.h"

namespace uroce::control {

/// The QPNs to come of an engine, for another one of the same size: a QPN of the past comes to life again there no
/// sooner than here.
struct QpnNumbers {
  SecretPermutation::Key permutation{};
  uint32_t fresh = 0;            ///< slots used so far
  std::vector<uint32_t> uses{};  ///< by slot
  std::vector<uint32_t> free{};  ///< of those, oldest first
};

class QpnAllocator {
 public:
  /// `slots`: a power of two, at most 2^(24 - index_bits). `engine` < 2^index_bits.
  QpnAllocator(uint32_t engine, uint32_t index_bits, uint32_t slots, const Secret& seed);

  /// A QPN that is not in use, never 0, 1 (QP0, QP1) or 0xffffff (multicast). The slot that has been free the longest
  /// comes first. nullopt when all slots are in use.
  std::optional<uint32_t> take();
  /// Takes this one, which another allocator of the same engine and size gave. False: its slot is in use, or it is no
  /// number of this engine.
  bool take(uint32_t qpn);
  /// `qpn` came from take() and is not in use any more.
  void give_back(uint32_t qpn);

  QpnNumbers numbers() const;
  /// Of an allocator that has given nothing yet. Used slots that are neither free nor taken later by take(qpn) are
  /// free, too. False, with nothing changed: they are no numbers of an allocator of this size.
  bool go_on_with(const QpnNumbers& numbers);

 private:
  uint32_t compose(uint32_t slot) const;
  uint32_t fresh_slot();
  uint32_t slot_of(uint32_t qpn) const { return (qpn >> index_bits_) & ((1u << slot_bits_) - 1); }

  uint32_t engine_;
  uint32_t index_bits_;
  uint32_t slot_bits_;
  uint32_t generation_bits_;
  SecretPermutation permute_;
  uint32_t fresh_ = 0;          // slots used so far
  std::vector<uint32_t> uses_;  // of each slot
  std::vector<bool> in_use_;    // slots
  std::deque<uint32_t> free_;   // oldest first; some may be in use, because take(qpn) does not look for them
};

}  // namespace uroce::control
