// All that a recorded engine knows at the end of a call, as records: a replay can begin here, and one that comes here
// checks them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "record/format.h"
#include "record/shadow.h"
#include "transport/engine/engine.h"
#include "transport/qp/srq.h"

namespace uroce::record {

/// An engine and what it works on.
struct Keyed {
  transport::Engine& engine;
  std::vector<std::pair<transport::Qp*, ShadowQp*>> qps;
  std::vector<std::pair<transport::Srq*, ShadowSrq*>> srqs;
};

/// One of its records: `fixed` and behind it `state`, which is the same in a replay, byte for byte.
using EmitRecord =
    std::function<void(Kind kind, uint16_t small, std::span<const std::byte> fixed, std::span<const std::byte> state)>;

/// Its records, in their order. `small`: of the first. Long state goes on in Kind::key_more, so that it fits into a
/// part.
void write_keyframe(Keyed keyed, uint16_t small, const EmitRecord& emit);

/// The engine's queue pair as it is now.
QpRecord describe(const transport::Qp& qp, Nanos now);
SrqRecord describe(const transport::Srq& srq, uint32_t limit);
/// All receive rules.
std::vector<std::byte> describe(const transport::FlowTable& flows);

/// Slots of a ring, and state, in pieces that are not much larger than this.
inline constexpr std::size_t kPiece = 4096;
/// Calls `put(record, bytes of the slots)` for each.
template <class Put>
void for_each_piece(const ShadowRing& ring, const SlotsRecord& all, Put&& put) {
  std::vector<std::byte> slots;
  SlotsRecord piece{.object = all.object, .producer = all.first, .first = all.first};
  for (uint32_t left = all.slots; left > 0; --left) {
    const uint16_t length = ring.length_of(piece.producer);
    const std::byte* const slot = ring.place().slot(piece.producer);
    const auto prefix = std::as_bytes(std::span(&length, 1));
    slots.insert(slots.end(), prefix.begin(), prefix.end());
    slots.insert(slots.end(), slot, slot + length);
    ++piece.producer;
    ++piece.slots;
    if (left > 1 && slots.size() < kPiece) continue;
    if (left == 1) piece.producer = all.producer;
    put(std::as_const(piece), std::span<const std::byte>(slots));
    piece = {.object = all.object, .producer = piece.producer, .first = piece.producer};
    slots.clear();
  }
}

}  // namespace uroce::record
