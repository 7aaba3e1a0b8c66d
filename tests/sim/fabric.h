// Hosts, switches and links of a scenario, in virtual time.
#pragma once

#include <memory>
#include <vector>

#include "tests/sim/host.h"
#include "tests/sim/scenario.h"
#include "tests/sim/switch.h"

namespace uroce::sim {

class Fabric {
 public:
  explicit Fabric(const Scenario& scenario);

  EventQueue& events() { return events_; }
  /// The sending host of a flow, and the receiving host of all.
  Host& from(uint32_t flow) { return *hosts_[scenario_.topology == Topology::incast ? flow : 0]; }
  Host& to() { return *hosts_.back(); }
  const std::vector<std::unique_ptr<Host>>& hosts() const { return hosts_; }
  /// Output ports of switches that the flows' payload goes through.
  const std::vector<Port*>& watched() const { return watched_; }
  /// All output ports of switches.
  const std::vector<std::unique_ptr<Port>>& ports() const { return ports_; }
  /// Packets with payload for QP `qpn`, of whichever host, are metered from now on.
  void set_meter(uint32_t qpn, FlowMeter& meter);
  void set_trace(const Trace* trace);

 private:
  Port& add_port(const std::string& name, Nanos delay, Receiver& far_end, bool impaired);
  Host& add_host(Switch& uplink, Nanos delay);
  void add_paths(Switch& left, Switch& right);

  Scenario scenario_;
  Random random_;
  EventQueue events_;
  FramePool pool_;
  std::vector<FlowMeter*> meters_;
  std::vector<std::unique_ptr<Switch>> switches_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<Port*> watched_;
};

}  // namespace uroce::sim
