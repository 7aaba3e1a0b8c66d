// The report as JSON: perftest's members under perftest's names, and everything else a run is made of.
#pragma once

#include <string>
#include <vector>

#include <uroce/error.h>

#include "perf/endpoint.h"
#include "perf/options.h"
#include "perf/statistics.h"

namespace uroce::perf {

/// What the report says about the ground under a test.
struct Setting {
  DeviceInfo device;
  uint32_t path_mtu = 0;
  uint32_t outs = 0;
  int gid_index = 0;
  bool embedded = false;
};

/// The whole report. "results" is the last size's, as perftest's; "runs" lists all sizes.
std::string json_report(const Options& options, const Setting& setting, const std::vector<SizeReport>& results);
/// Errors: what open(2) and write(2) say, naming the file.
Result<void> write_file(const std::string& name, const std::string& text);

}  // namespace uroce::perf
