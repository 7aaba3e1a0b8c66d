// Defaults and rules that hold between options, perftest's where it has one.
#pragma once

#include <optional>
#include <string>

#include "perf/options.h"

namespace uroce::perf {

/// Values that stand for "the user did not say" in options whose zero means something.
struct OptionMarks {
  double unset_s;
  uint32_t unset;
};

/// Fills the defaults that depend on the test, and limits one option by another as perftest does.
/// Returns a sentence when the combination makes no sense.
std::optional<std::string> apply_rules(Options& o, const OptionMarks& marks, bool explicit_size);

}  // namespace uroce::perf
