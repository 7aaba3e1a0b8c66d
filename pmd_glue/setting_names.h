// The names that settings use for the behaviour of engines and ports.
#pragma once

#include <array>
#include <string_view>
#include <utility>

#include <uroce/stack.h>

namespace uroce::glue {

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

}  // namespace uroce::glue
