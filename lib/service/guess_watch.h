// Peers that guess numbers (base/guess_table.h): who they are, and when the log tells of them.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "base/guess_table.h"
#include "cm/manager.h"
#include "control/device.h"

namespace uroce::service {

/// All guesses that the device has counted, in the order of addresses. `connections` may be nullptr. Waits for the
/// engines. Errors: ETIMEDOUT.
Result<std::vector<PeerGuesses>> guesses_at(control::Device& device, const cm::Manager* connections);

/// One thread at a time.
class GuessWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  /// A peer with so many guesses is worth a line, once for each of these numbers. Fewer are accidents: a queue pair
  /// that went while its peer was sending.
  static constexpr std::array<uint64_t, 3> kThresholds{1'000, 100'000, 10'000'000};
  static constexpr std::chrono::seconds kLookInterval{1};
  static constexpr std::chrono::seconds kLineInterval{10};  ///< between two lines, whoever guesses

  /// The line that is due, with what was counted since. Asks the engines only when there are new guesses.
  std::optional<std::string> look(const std::vector<std::shared_ptr<control::Device>>& devices,
                                  const cm::Manager* connections, Time now);
  /// The part of look() for one device and what it has counted: tells of the peer with the most guesses among those
  /// that have passed a threshold and of which no line told that.
  std::optional<std::string> line(std::string_view device, const std::vector<PeerGuesses>& peers, Time now);
  /// The same for requests that were slowed since the last line about them.
  std::optional<std::string> line(std::string_view device, const cm::Slowed& slowed, Time now);

 private:
  struct Of {
    uint64_t seen = 0;                  // guesses at the last look
    uint64_t slowed = 0;                // cm::Slowed::requests at the last line
    bool untold = false;                // a line waits for its interval
    std::map<Gid, std::size_t> told{};  // thresholds, by peer; of peers that the device still counts
  };
  std::map<std::string, Of, std::less<>> devices_;
  std::optional<Time> looked_, spoke_;
};

}  // namespace uroce::service
