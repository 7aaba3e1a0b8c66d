// The words of settings that have a few: loss recovery, congestion control, and the behaviour of engines and ports.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include <uroce/stack.h>
#include <uroce/types.h>

namespace uroce::settings {

inline constexpr std::array<std::pair<std::string_view, Retransmission>, 3> kRetransmissionNames{{
    {"auto", Retransmission::automatic},
    {"go-back-n", Retransmission::go_back_n},
    {"selective", Retransmission::selective},
}};

inline constexpr std::array<std::pair<std::string_view, CongestionAlgorithm>, 3> kCongestionNames{{
    {"none", CongestionAlgorithm::none},
    {"dcqcn", CongestionAlgorithm::dcqcn},
    {"swift", CongestionAlgorithm::swift},
}};

inline constexpr std::array<std::pair<std::string_view, IdlePolicy>, 3> kIdleNames{{
    {"busy", IdlePolicy::busy},
    {"yield", IdlePolicy::yield},
    {"sleep", IdlePolicy::sleep},
}};

inline constexpr std::array<std::pair<std::string_view, StackOptions::TxMode>, 3> kTxModeNames{{
    {"automatic", StackOptions::TxMode::automatic},
    {"copy", StackOptions::TxMode::copy},
    {"external", StackOptions::TxMode::external},
}};

/// "device" for device_default, "?" for an unknown value.
constexpr std::string_view name_in(const auto& names, auto choice) {
  for (const auto& [word, value] : names) {
    if (value == choice) return word;
  }
  return static_cast<int>(choice) == 0 ? "device" : "?";
}
constexpr std::string_view name(Retransmission choice) { return name_in(kRetransmissionNames, choice); }
constexpr std::string_view name(CongestionAlgorithm choice) { return name_in(kCongestionNames, choice); }

/// False for device_default as well.
constexpr bool is_known(const auto& names, auto choice) {
  return std::ranges::any_of(names, [choice](const auto& one) { return one.second == choice; });
}

}  // namespace uroce::settings
