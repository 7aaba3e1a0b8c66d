#include "perf/program.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <exception>

#include "perf/command_line.h"
#include "perf/interrupt.h"
#include "perf/json_report.h"
#include "perf/run.h"

namespace uroce::perf {
namespace {

constexpr int kOk = 0, kRunFailed = 1, kUnusable = 2;

int say(const Options& options, const Error& error, int code) {
  std::fflush(stdout);
  fmt::print(stderr, "{}: {}\n", options.program, error.text);
  return code;
}

Result<Outcome> start_and_run(const Options& options) {
  auto host = Host::start(options);
  if (!host) return std::unexpected(host.error());
  catch_interrupts();
  return run_test(*host, options);
}

int run(int argc, char** argv, glue::RawFrames* frames) {
  const auto options = parse_command_line(argc, argv);
  if (!options) {
    fmt::print(options.error().code == kOk ? stdout : stderr, "{}\n", options.error().text);
    return options.error().code;
  }
  const std::string& file = options->out_json_file;
  if (!file.empty() && file != "-") {
    // Find this out before the run, not after it.
    if (auto writable = write_file(file, ""); !writable) return say(*options, writable.error(), kUnusable);
  }
  const auto outcome = options->test.verb == Verb::raw ? run_raw_test(*options, frames) : start_and_run(*options);
  if (!outcome) return say(*options, outcome.error(), outcome.error().code == EINVAL ? kUnusable : kRunFailed);
  if (file.empty()) return kOk;
  const auto written = write_file(file, json_report(*options, outcome->setting, outcome->results));
  return written ? kOk : say(*options, written.error(), kRunFailed);
}

}  // namespace

int run_program(int argc, char** argv, glue::RawFrames* frames) {
  try {
    return run(argc, argv, frames);
  } catch (const std::exception& e) {
    fmt::print(stderr, "uroce_perf: ended by an exception: {}\n", e.what());
    return kRunFailed;
  }
}

}  // namespace uroce::perf
