#pragma once

#include <gtest/gtest.h>

#include "perf/command_line.h"

namespace uroce::perf {

/// The options of a good command line.
inline Options options_for(std::vector<const char*> words) {
  const auto options = parse_command_line(static_cast<int>(words.size()), words.data());
  EXPECT_TRUE(options.has_value()) << (options ? "" : options.error().text);
  return options ? *options : Options{};
}

}  // namespace uroce::perf
