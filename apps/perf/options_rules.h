// Defaults of options and rules between them, as in perftest where it has them.
#pragma once

#include <optional>
#include <string>

#include "perf/options.h"

namespace uroce::perf {

/// Values that mean "not given", for options whose zero has a meaning.
struct OptionMarks {
  double unset_s;
  uint32_t unset;
  uint8_t unset_code;
};

/// Fills the defaults that depend on the test, and limits one option by another as perftest does.
/// Returns a sentence when the options contradict each other.
std::optional<std::string> apply_rules(Options& o, const OptionMarks& marks, bool explicit_size);

}  // namespace uroce::perf
