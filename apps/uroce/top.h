// The view of `uroce top`: engines, devices, the busiest queue pairs, connections.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "uroce/rates.h"

namespace uroce::cli {

/// Queue pairs for which `top` asks; where there are more it shows none, because their engines would be busy answering.
inline constexpr uint64_t kMostQpsOfTop = 2000;

struct ScreenSize {
  std::size_t lines = 0;    ///< 0: no limit
  std::size_t columns = 0;  ///< 0: no limit
};

/// Columns that do not fit are left out, the least important first. Rates are 0 without a `before`.
std::string top_view(const Sample& before, const Sample& after, ScreenSize size);

}  // namespace uroce::cli
