// The receiving side of SENDs. It lives for all sizes of a run, like posted receives.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "perf/endpoint.h"
#include "perf/plan.h"
#include "perf/sender.h"

namespace uroce::perf {

class Receiver {
 public:
  /// `direction` selects the patterns that the peer sends.
  Receiver(Endpoint& endpoint, const Options& options, uint32_t direction);

  /// Expects messages of `size` bytes from now on. Call it before the peer may send. False: see problem().
  bool begin(uint64_t size);
  /// Takes arrived messages and posts receives again. Allocates nothing.
  Step step();
  uint64_t received() const { return received_; }  ///< since begin(), all QPs
  uint64_t verified() const { return verified_; }  ///< since begin()
  const std::string& problem() const { return problem_; }

 private:
  struct QpStream {
    QueuePair* qp;
    std::byte* memory;
    uint64_t received;     ///< since begin()
    uint32_t post_slot;    ///< slot of the next receive to post
    uint32_t arrive_slot;  ///< slot of the next message
    uint32_t posted;       ///< receives posted now
  };
  bool top_up(QpStream& stream, uint32_t index);
  bool take(const Completion& completion);

  Endpoint& endpoint_;
  const Options& options_;
  const ReceivePlan plan_;
  const uint32_t direction_;
  CompletionQueue& cq_;
  std::vector<QpStream> streams_;
  std::array<Completion, 64> completions_{};
  uint64_t size_ = 0;
  uint64_t received_ = 0;
  uint64_t verified_ = 0;
  std::string problem_;
};

}  // namespace uroce::perf
