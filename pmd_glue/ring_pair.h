// Two ports of this process joined back to back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include <uroce/error.h>

struct rte_ring;

namespace uroce::glue {

class RingPair {
 public:
  /// Frames that a port sends in queue q arrive in queue q of the other. Errors: ENOMEM, or the driver's.
  static Result<std::unique_ptr<RingPair>> make(uint32_t queues, uint32_t slots);
  /// Also removes the ports that are not closed yet.
  ~RingPair();
  RingPair(const RingPair&) = delete;
  RingPair& operator=(const RingPair&) = delete;

  std::array<uint16_t, 2> ports() const { return ports_; }
  /// Where frames wait that the first (0) or the second port (1) has sent in `queue`; nullptr: there is no such queue.
  const rte_ring* sent(std::size_t port, uint32_t queue) const {
    const std::size_t queues = rings_.size() / 2;
    return queue < queues ? rings_[port * queues + queue] : nullptr;
  }

 private:
  RingPair() = default;
  std::array<uint16_t, 2> ports_{};
  std::vector<rte_ring*> rings_;
};

}  // namespace uroce::glue
