// A scenario, run, and what is told about it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "tests/sim/sampler.h"
#include "tests/sim/traffic.h"

namespace uroce::sim {

using Json = nlohmann::ordered_json;

class Simulation {
 public:
  explicit Simulation(const Scenario& scenario);

  void set_trace(std::FILE* out);
  /// Runs it to its end. `progress` is called now and then with the share of virtual time that is over.
  void run(const std::function<void(double)>& progress = {});

  Fabric& fabric() { return fabric_; }
  const Scenario& scenario() const { return scenario_; }
  const std::vector<std::unique_ptr<Traffic>>& traffic() const { return traffic_; }
  const std::vector<std::unique_ptr<QueueSampler>>& queues() const { return queues_; }
  const WindowSampler& windows() const { return *windows_; }

 private:
  Scenario scenario_;
  Fabric fabric_;
  std::vector<std::unique_ptr<Traffic>> traffic_;
  std::vector<std::unique_ptr<QueueSampler>> queues_;
  std::unique_ptr<WindowSampler> windows_;
  std::optional<Trace> trace_;
};

/// Everything that was measured; the same for the same scenario, whenever and wherever it ran.
Json summarize(Simulation& simulation);
/// The summary's most important numbers for people.
std::string to_text(const Json& summary);

}  // namespace uroce::sim
