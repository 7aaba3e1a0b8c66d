// The layout of one size's messages in memory, and the number outstanding at once.
#pragma once

#include <cstdint>

#include "perf/options.h"

namespace uroce::perf {

/// Slots of atomics, one cache line each; fixed, since the responder must start them at known values.
inline constexpr uint32_t kAtomicSlots = 64;

/// Plan for one size. Iteration i uses slot i % ring, at slot * stride bytes from the QP's base on both sides.
struct Plan {
  uint64_t size = 0;    ///< bytes of a message
  uint64_t stride = 0;  ///< bytes from slot to slot, a multiple of 64
  uint32_t ring = 1;    ///< slots; with --verify also the length of a round
  uint32_t depth = 1;   ///< outstanding per QP
  uint32_t list = 1;    ///< work requests per post
  uint32_t cq_mod = 1;  ///< messages per completion
  bool use_inline = false;
};

/// Layout of a receiver of SENDs; the same for all sizes of a run.
struct ReceivePlan {
  uint64_t capacity = 0;  ///< bytes of a receive
  uint64_t stride = 0;
  uint32_t slots = 1;
  uint32_t depth = 1;  ///< receives posted per QP
};

/// `remote_bytes` is the size of the memory that the peer exposes for each QP.
Plan plan_for(const Options& options, uint64_t size, uint64_t remote_bytes);
ReceivePlan receive_plan(const Options& options);
/// Bytes of one QP's memory: the part that it sends from or reads into, and the part that the peer accesses or sends
/// into.
uint64_t local_bytes(const Options& options);
uint64_t exposed_bytes(const Options& options);

}  // namespace uroce::perf
