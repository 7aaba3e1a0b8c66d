// Runs a whole test, from the started host to the exit code.
#pragma once

#include <string>
#include <vector>

#include "perf/host.h"
#include "perf/json_report.h"
#include "perf/options.h"

namespace uroce::perf {

/// The outcome of a test.
struct Outcome {
  std::vector<SizeReport> results;
  Setting setting{};
};

/// Runs the server, the client, or both, as the options say, and prints the table. Errors: the reason of the failure in
/// a sentence.
Result<Outcome> run_test(Host& host, const Options& options);

/// raw_bw: the frame rate of a port pair without transport. Starts EAL itself. A client sends, a server receives and
/// counts; back to back, one process does both. ^C or SIGTERM on either side ends it early. The interrupted side prints
/// the frames counted so far, and returns EINTR.
Result<Outcome> run_raw_test(const Options& options);

}  // namespace uroce::perf
