#include "tests/sim/simulation.h"

namespace uroce::sim {

Simulation::Simulation(const Scenario& scenario) : scenario_(scenario), fabric_(scenario) {
  for (uint32_t flow = 0; flow < scenario.flows; ++flow) {
    if (flow == 0 || scenario.topology == Topology::incast) {
      traffic_.push_back(std::make_unique<Traffic>(fabric_, scenario, fabric_.from(flow), fabric_.to()));
    }
    traffic_.back()->add_flow(flow);
  }
  for (Port* port : fabric_.watched()) {
    queues_.push_back(std::make_unique<QueueSampler>(fabric_.events(), *port, scenario.start));
  }
  windows_ = std::make_unique<WindowSampler>(fabric_, scenario.start, scenario.window);
}

void Simulation::set_trace(std::FILE* out) {
  trace_.emplace(fabric_.events(), out);
  fabric_.set_trace(&*trace_);
}

void Simulation::run(const std::function<void(double)>& progress) {
  constexpr int kSteps = 1000;
  for (const auto& host : fabric_.hosts()) host->run();
  fabric_.events().run_until(scenario_.at(Nanos(0)));
  for (int step = 1; step <= kSteps; ++step) {
    fabric_.events().run_until(scenario_.at(scenario_.duration * step / kSteps));
    if (progress) progress(static_cast<double>(step) / kSteps);
  }
}

Totals WindowSampler::totals(Fabric& fabric) {
  Totals sum;
  for (const auto& port : fabric.ports()) {
    sum.queue_drops += port->counters().queue_drops;
    sum.lost += port->counters().lost;
    sum.marked += port->counters().marked;
  }
  for (const auto& host : fabric.hosts()) {
    const transport::EngineCounters& counters = host->endpoint().engine().counters();
    sum.timeouts += counters.timeouts.get();
    sum.retransmitted += counters.retransmitted_packets.get();
  }
  return sum;
}

}  // namespace uroce::sim
