// The report as JSON: perftest's members under perftest's names, and the other parameters of a run.
#pragma once

#include <string>
#include <vector>

#include <uroce/error.h>

#include "perf/endpoint.h"
#include "perf/options.h"
#include "perf/statistics.h"

namespace uroce::perf {

/// The report's facts about devices and addresses.
struct Setting {
  DeviceInfo device;
  uint32_t path_mtu = 0;
  uint32_t outs = 0;
  int gid_index = 0;
  bool embedded = false;
};

/// The whole report. "results" is the result of the last size, as in perftest; "runs" has those of all sizes.
std::string json_report(const Options& options, const Setting& setting, const std::vector<SizeReport>& results);
/// Errors: those of open(2) and write(2); the text names the file.
Result<void> write_file(const std::string& name, const std::string& text);

}  // namespace uroce::perf
