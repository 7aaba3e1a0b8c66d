// Runs a whole test, from the started host to the exit code.
#pragma once

#include <string>
#include <vector>

#include "perf/host.h"
#include "perf/json_report.h"
#include "perf/options.h"

namespace uroce::glue {
class RawFrames;
}

namespace uroce::perf {

/// The outcome of a test.
struct Outcome {
  std::vector<SizeReport> results;
  Setting setting{};
};

/// Runs the server, the client, or both, as the options say, and prints the table. Errors: the reason of the failure in
/// a sentence.
Result<Outcome> run_test(Host& host, const Options& options);

/// raw_bw and raw_lat: the frame rate and the latency of a port pair without transport. Starts EAL itself. A client
/// sends, a server receives and counts, or sends back; back to back, one process does both. ^C or SIGTERM on either
/// side ends it early. The interrupted side prints what was counted so far, and returns EINTR. `frames` makes and takes
/// the contents of raw_bw's frames; null for none.
Result<Outcome> run_raw_test(const Options& options, glue::RawFrames* frames = nullptr);

}  // namespace uroce::perf
