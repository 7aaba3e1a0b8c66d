// Applications that keep a number of RDMA operations posted, as a bandwidth test does, and see how long each takes.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "tests/sim/fabric.h"
#include "tests/sim/flow_meter.h"

namespace uroce::sim {

/// One flow: a queue pair at each end, and what its application saw.
struct TrafficFlow {
  explicit TrafficFlow(const Scenario& scenario) : meter(scenario.start, scenario.window) {}
  test::TestQp* qp = nullptr;
  test::TestRegion* local = nullptr;
  test::TestRegion* remote = nullptr;
  uint64_t next_place = 0;   ///< of the message to come, in `local`
  std::deque<Nanos> posted;  ///< when, oldest first
  uint64_t completed = 0;    ///< messages, after the warm-up
  std::optional<WcStatus> failure;
  FlowMeter meter;
};

/// The application of one host, which all its flows share.
class Traffic : public Host::Application, private Handler {
 public:
  /// Of `host`, whose flows all go to `to`.
  Traffic(Fabric& fabric, const Scenario& scenario, Host& host, Host& to);

  /// `number` makes its QPNs unique in the fabric.
  void add_flow(uint32_t number);
  bool work(Nanos now) override;

  const std::vector<std::unique_ptr<TrafficFlow>>& flows() const { return flows_; }
  /// Post to completion, after the warm-up.
  const std::vector<Nanos>& latencies() const { return latencies_; }

 private:
  void on_event(uint64_t) override;
  /// Messages that `local` has room for.
  uint64_t places() const;
  void post(TrafficFlow& flow, uint64_t number, Nanos now);

  Fabric& fabric_;
  Scenario scenario_;
  Host& host_;
  Host& to_;
  test::TestCq& cq_;
  test::TestCq& peer_cq_;
  Random random_;
  std::vector<std::unique_ptr<TrafficFlow>> flows_;
  std::vector<Nanos> latencies_;
};

}  // namespace uroce::sim
