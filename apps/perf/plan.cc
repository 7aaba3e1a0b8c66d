#include "perf/plan.h"

#include <algorithm>

namespace uroce::perf {
namespace {

constexpr uint64_t kLine = 64;
constexpr uint64_t kCycle = 4096;  ///< small messages use this many bytes in turn, like perftest's cycle buffer
constexpr uint64_t kVerifyBytes = 128ull << 20;  ///< all QPs together, in each direction
constexpr uint32_t kVerifyRing = 64;  ///< least number of slots, if they fit: a round costs a message exchange

uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

/// Slots without --verify: small messages use a page in turn, large ones share one place.
uint32_t cycle_slots(uint64_t stride) { return static_cast<uint32_t>(std::max<uint64_t>(1, kCycle / stride / 2 * 2)); }

/// Slots for one QP that fit the memory of a verified run.
uint64_t verify_slots(const Options& o, uint64_t stride) {
  return std::max<uint64_t>(1, kVerifyBytes / o.qps / stride);
}

/// Limits the messages outstanding to the ring, so that no result is overwritten before it is checked.
void share_nothing(Plan& p) {
  p.depth = std::min(p.depth, p.ring);
  if (p.list > p.ring) p.list = p.cq_mod = 1;
  p.cq_mod = std::min(p.cq_mod, p.depth);
}

}  // namespace

Plan plan_for(const Options& o, uint64_t size, uint64_t remote_bytes) {
  Plan p{.size = size, .stride = round_up(size, kLine), .depth = o.tx_depth, .list = o.post_list, .cq_mod = o.cq_mod};
  const bool sends_payload = o.test.verb == Verb::write || o.test.verb == Verb::send || o.test.verb == Verb::flush;
  p.use_inline = sends_payload && size <= o.inline_size;
  const uint64_t fitting = o.test.verb == Verb::send ? ~uint64_t{0} : std::max<uint64_t>(1, remote_bytes / p.stride);
  if (o.test.verb == Verb::atomic) {
    p.ring = kAtomicSlots;
    if (o.verify) share_nothing(p);
    if (o.verify) {
      // A result is checked in place, so its slot must not be used again before.
      p.depth = std::min(p.depth, p.ring);
      if (std::max(p.list, p.cq_mod) > p.depth) p.list = p.cq_mod = 1;
    }
  } else if (!o.verify) {
    p.ring = static_cast<uint32_t>(std::min<uint64_t>(cycle_slots(p.stride), fitting));
  } else {
    const uint64_t allowed = std::min(verify_slots(o, p.stride), fitting);
    const uint64_t wanted = round_up(std::max(p.depth, kVerifyRing), std::max(p.list, p.cq_mod));
    if (wanted > allowed) {
      p.list = p.cq_mod = 1;
      p.depth = static_cast<uint32_t>(std::min<uint64_t>(p.depth, allowed));
    }
    p.ring = static_cast<uint32_t>(std::min(wanted, allowed));
  }
  return p;
}

ReceivePlan receive_plan(const Options& o) {
  ReceivePlan p{.capacity = o.size, .stride = round_up(o.size, kLine), .depth = o.rx_depth};
  if (o.verify) {
    p.slots = p.depth = static_cast<uint32_t>(std::min<uint64_t>(o.rx_depth, verify_slots(o, p.stride)));
  } else {
    p.slots = cycle_slots(p.stride);
  }
  return p;
}

uint64_t local_bytes(const Options& o) {
  uint64_t most = 0;
  for (const uint64_t size : o.sizes()) {
    const Plan p = plan_for(o, size, ~uint64_t{0});
    most = std::max(most, p.stride * p.ring);
  }
  return round_up(most, kCycle);
}

uint64_t exposed_bytes(const Options& o) {
  const ReceivePlan r = receive_plan(o);
  return o.test.verb == Verb::send ? round_up(r.stride * r.slots, kCycle) : local_bytes(o);
}

}  // namespace uroce::perf
