// One rule: which frames, and what happens to them.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/peer_list.h"
#include "base/time.h"

namespace uroce::faults {

enum class Action : uint8_t { drop, delay, duplicate, reorder, corrupt, mark, throttle, partition };
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

/// A member that is not set chooses every frame.
struct Rule {
  std::string text{};  ///< as it was written, without a seed that was drawn
  Action action{};
  // The action's own values.
  Nanos delay{0};
  uint64_t bits_per_s = 0;
  uint32_t overtakers = 1;  ///< frames that go before a reordered one
  Part part{};
  bool icrc_is_right = false;
  std::optional<uint32_t> at{};  ///< the byte that changes, from the beginning of the part
  // The frames.
  Direction direction{};
  std::string device{};           ///< empty: all
  std::optional<uint32_t> qpn{};  ///< of the BTH
  std::vector<Prefix> peers{};
  std::optional<std::bitset<256>> opcodes{};
  bool naks = false, rnr_naks = false;   ///< ACKs of these kinds, besides `opcodes`
  std::optional<Span<uint32_t>> psn{};   ///< may wrap
  std::optional<Span<uint32_t>> size{};  ///< bytes of payload
  // A choice among those, counted from 1.
  std::optional<Span<uint64_t>> nth{};
  uint64_t every = 1;
  double probability = 1;
  std::optional<uint64_t> count{};  ///< injections at most
  std::optional<uint64_t> seed{};
};

}  // namespace uroce::faults
