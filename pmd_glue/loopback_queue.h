// Frames in buffers from an engine to queue pairs of its own device, until their engines have room for them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include <rte_mbuf.h>

#include "pmd_glue/handover.h"

namespace uroce::glue {

/// One thread uses it.
class LoopbackQueue {
 public:
  static constexpr std::size_t kRoom = 64;

  /// `handover` outlives the queue.
  explicit LoopbackQueue(Handover& handover) : handover_(handover) {}
  ~LoopbackQueue();
  LoopbackQueue(const LoopbackQueue&) = delete;
  LoopbackQueue& operator=(const LoopbackQueue&) = delete;

  std::size_t size() const { return count_; }
  /// Takes the frame, which has one reference, for the engines whose bits are set in `targets`. Call it while size() is
  /// below kRoom.
  void add(rte_mbuf* mbuf, uint64_t targets, Handover::For whom);
  /// Hands over what there is room for. True when any frame moved.
  bool flush();

 private:
  Handover& handover_;
  std::size_t count_ = 0;
  std::array<rte_mbuf*, kRoom> mbufs_{};
  std::array<uint64_t, kRoom> targets_{};  ///< engines that still get the frame, each with a reference of its own
  std::array<Handover::For, kRoom> for_{};
};

}  // namespace uroce::glue
