// What loss recovery knows of one RC queue pair.
//
// Towards any peer: when each packet left, and which answers of READs and atomics have arrived beyond the first that
// is missing, so that only what is missing is asked for again. Towards a uroce peer, once both have said HELLO: which
// requests have arrived there out of order (SACK), so that only the holes are sent again.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

#include "base/psn.h"
#include "base/time.h"
#include "transport/psn_set.h"
#include "transport/rtt.h"
#include "transport/timer_wheel.h"

namespace uroce::transport {

/// A moment in 64 ns, for comparing moments that are less than 137 s apart.
class Stamp {
 public:
  Stamp() = default;
  explicit Stamp(Nanos at) : value_(static_cast<uint32_t>(static_cast<uint64_t>(at.count()) >> 6)) {}
  /// Negative when this one is the earlier.
  Nanos since(Stamp earlier) const { return Nanos(int64_t{static_cast<int32_t>(value_ - earlier.value_)} * 64); }

 private:
  uint32_t value_ = 0;
};

/// The last departure of the request packet with a PSN.
struct Departure {
  Stamp at{};
  uint16_t times = 0;  ///< how often it has left; stays at its largest
};

/// Why packets are sent again.
enum class Cause : uint8_t {
  hole,     ///< a SACK, or a later answer, showed that it is missing
  probe,    ///< nothing was heard for about two round trips
  timeout,  ///< nor after that
  nak,      ///< the peer said so (Go-Back-N, RNR)
};
inline constexpr std::size_t kCauses = 4;

struct Recovery {
  /// For `window` packets at most; the memory that it will ever need.
  explicit Recovery(uint32_t window)
      : departures(std::bit_ceil(window)), held(parking_for(window)), parked(parking_for(window)) {}
  /// As new.
  void reset() {
    std::ranges::fill(departures, Departure{});
    std::ranges::fill(held, uint16_t{0});
    std::ranges::fill(parked, uint16_t{0});
    Recovery fresh(std::move(departures), std::move(held), std::move(parked));
    *this = std::move(fresh);
  }
  Recovery(Recovery&&) = default;
  Recovery& operator=(Recovery&&) = default;

  // --- Discovery (hello.cc).
  uint32_t epoch = 0;            ///< of this connection here
  uint32_t peer_epoch = 0;       ///< there; 0: the peer has not proven that it hears us
  uint32_t candidate_epoch = 0;  ///< heard, not proven
  uint16_t peer_parking = 0;     ///< packets that the peer keeps
  uint16_t candidate_parking = 0;
  uint8_t hellos_left = 0;
  bool asks_for_ever = false;
  Nanos hello_sent{};
  Nanos hello_wait{};
  TimerNode hello_timer;

  // --- Requester.
  std::vector<Departure> departures;  ///< a ring by PSN, power of two
  PsnSet sacked;                      ///< requests that wait at the peer
  PsnSet placed;                      ///< answers of READs and atomics that have arrived
  std::vector<uint16_t> held;         ///< a ring by PSN: those that came before their request's turn, as `parked`
  uint32_t held_count = 0;
  PsnSet lost;          ///< to be sent, or asked for, again
  bool marked = false;  ///< any of the three may hold something
  Psn highest{};        ///< one past the newest request known to have arrived
  Psn horizon{};        ///< one past the newest answer that must have left the peer
  Psn asked_until{};    ///< one past the newest answer that was asked for again
  Nanos asked_at{};
  Stamp newest_delivered{};  ///< when the latest-sent packet that arrived had left
  uint32_t reorder = 0;      ///< packets that may overtake one which is not lost
  uint32_t in_order = 0;     ///< packets since one was overtaken
  RttEstimator rtt;
  uint32_t quiet_rounds = 0;  ///< timers in a row without progress
  Nanos progress_at{};
  Nanos ack_asked_at{};
  Nanos loss_at{};           ///< when congestion control last heard of one
  uint32_t open_window = 0;  ///< packets that may be out as far as timeouts tell
  Cause cause{};             ///< of what is sent again now
  std::array<uint64_t, kCauses> retransmissions{};

  // --- Responder.
  std::vector<uint16_t> parked;  ///< a ring by PSN, power of two: the frame's number in the engine's pool, 0: none
  PsnSet parked_psns;
  uint32_t parked_count = 0;
  Psn parked_end{};  ///< one past the newest
  Psn echo_psn{};
  uint8_t echo_tag = 0;
  bool echo_duplicate = false;
  Nanos echo_at{};

  Departure& departure(Psn psn) { return departures[psn.value() & (departures.size() - 1)]; }
  uint16_t& held_place(Psn psn) { return held[psn.value() & (held.size() - 1)]; }
  uint16_t& parking_place(Psn psn) { return parked[psn.value() & (parked.size() - 1)]; }
  /// Packets beyond the expected one that are kept.
  uint32_t parking() const { return static_cast<uint32_t>(parked.size()) - 1; }

 private:
  static uint32_t parking_for(uint32_t window) { return std::min(std::bit_ceil(window), PsnSet::kSize); }
  Recovery(std::vector<Departure> departures_, std::vector<uint16_t> held_, std::vector<uint16_t> parked_)
      : departures(std::move(departures_)), held(std::move(held_)), parked(std::move(parked_)) {}
};

}  // namespace uroce::transport
