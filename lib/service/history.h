// The last events of programs and their queue pairs, for `uroce explain`. They stay for a while after a program has
// gone.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "message/operator_messages.h"
#include "service/peer.h"
#include "service/sight.h"

namespace uroce::service {

/// Bounded for each program, and for all of them together. Any thread.
class History {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::size_t kSteps = 48;     ///< of a program; the oldest go first
  static constexpr std::size_t kTroubles = 24;  ///< likewise
  static constexpr std::size_t kPrograms = 512;
  static constexpr std::size_t kText = 512;  ///< bytes of an event's text; the rest is cut off

  enum class Kind : uint8_t {
    step,     ///< as the program wanted: it came, a queue pair changed its state
    trouble,  ///< a refusal, an end, a link that went down
  };
  struct What {
    Kind kind = Kind::step;
    std::string_view device{};  ///< empty: of none
    uint32_t qpn = 0;           ///< 0: of no single queue pair
    std::string_view text{};
  };

  /// `client`: the program's number. An event that repeats the one before of its kind is counted with it.
  void note(uint32_t client, const Peer& peer, const What& what, Time now);
  /// Kinds in the singular, and how many.
  using Objects = std::vector<std::pair<std::string, uint64_t>>;
  /// The program has ended, and has not destroyed these.
  void end(uint32_t client, Objects left = {});
  /// Ended programs that left objects, of those that `sight` allows, from the first after client number `after`.
  message::LeftRows left(uint32_t after, const Sight& sight) const;
  /// The next events that `sight` allows, in order; as many as fit a packet.
  message::HistoryRows rows(const message::ListHistory& request, const Sight& sight, Time now) const;

 private:
  struct Event {
    uint64_t number = 0;
    Time at{};
    std::string device{};
    uint32_t qpn = 0;
    std::string text{};
    uint32_t times = 1;
  };
  struct Program {
    int32_t pid = 0;
    uint32_t uid = 0;
    std::string command{};
    bool gone = false;
    Objects left{};
    uint64_t newest = 0;  ///< number of its newest event
    std::deque<Event> steps{};
    std::deque<Event> troubles{};
  };
  void make_room();
  static bool concerns(const Program& program, const message::ListHistory& request);

  mutable std::mutex mutex_;  // guards the members below
  std::map<uint32_t, Program> programs_;
  uint64_t next_ = 1;
};

}  // namespace uroce::service
