// uroce_sim: one scenario in virtual time, its summary as text and JSON.
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tests/sim/command_line.h"
#include "tests/sim/simulation.h"

namespace {

using namespace uroce::sim;
using Clock = std::chrono::steady_clock;

/// A line now and then, once a run takes longer than that.
class Progress {
 public:
  void operator()(double done) {
    const auto now = Clock::now();
    if (now - told_ < std::chrono::seconds(2)) return;
    told_ = now;
    const double seconds = std::chrono::duration<double>(now - begun_).count();
    fmt::print(stderr, "{:5.1f} % after {:.0f} s, {:.0f} s to go\n", done * 100, seconds, seconds / done - seconds);
  }

 private:
  Clock::time_point begun_ = Clock::now();
  Clock::time_point told_ = begun_;
};

bool write_json(const std::string& path, const Json& summary) {
  if (path == "-") {
    std::cout << summary.dump(1) << '\n';
    return true;
  }
  std::ofstream file(path);
  file << summary.dump(1) << '\n';
  file.close();
  if (file) return true;
  fmt::print(stderr, "uroce_sim: cannot write {}; name a file in a folder that can be written\n", path);
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  CommandLine line;
  if (const auto exit = parse_command_line(argc, argv, line)) {
    fmt::print(exit->code == 0 ? stdout : stderr, "{}\n", exit->text);
    return exit->code;
  }
  if (line.scenario.warm_up >= line.scenario.duration) {
    fmt::print(stderr, "uroce_sim: --warm-up leaves nothing of --duration; make it shorter\n");
    return 2;
  }
  Simulation simulation(line.scenario);
  if (line.trace) simulation.set_trace(stdout);
  if (line.quiet) {
    simulation.run();
  } else {
    simulation.run(Progress());
  }
  const Json summary = summarize(simulation);
  for (const auto& one : line.scenario.faults) {
    if (line.quiet) break;
    fmt::print(stderr, "fault rule {} with seed {}: {}: {} hits\n", one->number, one->seed, one->rule.text,
               one->hits.load());
  }
  if (!line.quiet && line.json != "-") fmt::print("{}", to_text(summary));
  return line.json.empty() || write_json(line.json, summary) ? 0 : 1;
}
