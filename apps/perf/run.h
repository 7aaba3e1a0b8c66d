// A whole test, from the started host to the exit code.
#pragma once

#include <string>
#include <vector>

#include "perf/host.h"
#include "perf/json_report.h"
#include "perf/options.h"

namespace uroce::perf {

/// What a test came to.
struct Outcome {
  std::vector<SizeReport> results;
  Setting setting{};
};

/// Server, client, or both, as the options say. Prints the table. Errors: why the run failed, in a sentence.
Result<Outcome> run_test(Host& host, const Options& options);

/// raw_bw: the frame rate of a port pair without transport. Starts EAL itself. A client sends, a server receives and
/// counts; back to back, one process does both. ^C or SIGTERM on either side ends it with what was counted by then;
/// the side that was interrupted prints that, and returns EINTR.
Result<Outcome> run_raw_test(const Options& options);

}  // namespace uroce::perf
