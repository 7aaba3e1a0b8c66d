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

 private:
  RingPair() = default;
  std::array<uint16_t, 2> ports_{};
  std::vector<rte_ring*> rings_;
};

}  // namespace uroce::glue
