// One rule: which frames or calls, and what happens to them.
#pragma once

#include <bitset>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <uroce/types.h>

#include "base/peer_list.h"
#include "base/time.h"
#include "message/cm_reject_reasons.h"

namespace uroce::faults {

enum class Action : uint8_t {
  drop,
  delay,
  duplicate,
  reorder,
  corrupt,
  mark,
  throttle,
  partition,
  answer,
  stall,
  end_qp,
  fail,
  raise,
  link_down,
  gid_gone,
  hold,
  batch,
  shuffle,
  late_event,
};
/// In place of whom a frame was for.
enum class Answer : uint8_t { rnr, psn, invalid, access, operational, reject };
/// The things that a rule chooses among.
enum class Subject : uint8_t { frames, calls, events, completions };
enum class Direction : uint8_t { both, rx, tx };
/// The part that a corruption changes.
enum class Part : uint8_t { payload, header, icrc };

/// Both ends belong to it.
template <class T>
struct Span {
  T first{};
  T last{};
  bool holds(T value) const { return first <= value && value <= last; }
};

inline constexpr std::size_t kMostCalls = 64;

/// Whether the rule acts on frames, too.
constexpr bool acts_on_frames(Subject subject, Action action) {
  return subject == Subject::frames || action == Action::link_down;
}

/// A member that is not set chooses every frame, or call.
struct Rule {
  std::string text{};  ///< as it was written, without a seed that was drawn
  Action action{};
  Subject subject{};
  // The action's own values.
  Nanos delay{0};
  uint64_t bits_per_s = 0;
  uint32_t overtakers = 1;  ///< frames that go before a reordered one
  uint32_t together = 0;    ///< completions that come at once
  Part part{};
  bool icrc_is_right = false;
  std::optional<uint32_t> at{};  ///< the byte that changes, from the beginning of the part
  int error = ENOMEM;            ///< of a call that fails
  Answer answer{};
  uint16_t reason = static_cast<uint16_t>(message::RejReason::consumer_reject);  ///< of a reject
  std::optional<AsyncEventType> event{};  ///< that is raised; without it one of a completion
  std::optional<uint32_t> object{};       ///< its number; without it all of the event's kind, or all queues
  std::vector<Prefix> gids{};             ///< that are gone; empty: all
  std::string device{};                   ///< empty: all
  // The frames.
  Direction direction{};
  std::optional<uint32_t> qpn{};  ///< of the BTH
  std::vector<Prefix> peers{};
  std::optional<std::bitset<256>> opcodes{};
  std::optional<std::bitset<32>> cm{};   ///< messages of the connection manager, by their attribute IDs
  bool naks = false, rnr_naks = false;   ///< ACKs of these kinds, besides `opcodes`
  std::optional<Span<uint32_t>> psn{};   ///< may wrap
  std::optional<Span<uint32_t>> size{};  ///< bytes of payload
  // The calls.
  std::optional<std::bitset<kMostCalls>> calls{};  ///< by their places in call_names()
  std::vector<std::string> programs{};             ///< names, or numbers of processes; empty: all
  // A choice among those, counted from 1.
  std::optional<Span<uint64_t>> nth{};
  uint64_t every = 1;
  double probability = 1;
  std::optional<uint64_t> count{};  ///< injections at most
  Nanos after{0};                   ///< from the rule's beginning until it holds
  Nanos length = kNever;            ///< it holds so long
  std::optional<uint64_t> seed{};
};

}  // namespace uroce::faults
