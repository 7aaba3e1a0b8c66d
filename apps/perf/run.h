// A whole test, from the started stack to the exit code.
#pragma once

#include <string>
#include <vector>

#include <uroce/stack.h>

#include "perf/json_report.h"
#include "perf/options.h"

namespace uroce::perf {

/// What a test came to.
struct Outcome {
  std::vector<SizeReport> results;
  Setting setting{};
};

/// Server, client, or both, as the options say. Prints the table. Errors: why the run failed, in a sentence.
Result<Outcome> run_test(Stack& stack, const Options& options);

}  // namespace uroce::perf
