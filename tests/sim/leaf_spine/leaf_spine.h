// The leaf-spine fabric of a plan, and its traffic, in virtual time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/sim/leaf_spine/fabric_host.h"
#include "tests/sim/leaf_spine/workload.h"

namespace uroce::sim {

/// Sums over the fabric at one moment.
struct FabricTotals {
  uint64_t sent = 0;      ///< packets that hosts gave to their ports
  uint64_t received = 0;  ///< packets that hosts took
  uint64_t received_bytes = 0;
  uint64_t received_marked = 0;
  uint64_t dropped = 0;  ///< for want of room in a switch
  uint64_t lost = 0;     ///< on a link
  uint64_t cut = 0;      ///< on a link that was down, and for want of a way
  uint64_t marked = 0;
  uint64_t pauses = 0;
  Picos paused{0};             ///< links together
  uint64_t most_buffered = 0;  ///< in any switch so far
  uint64_t buffered = 0;       ///< in the fullest switch now
  uint64_t timeouts = 0;
  uint64_t retransmitted = 0;
  uint64_t path_changes = 0;
};

class LeafSpine : private Handler {
 public:
  explicit LeafSpine(const FabricPlan& plan);

  /// Until all flows have ended, or the plan's time is over. `progress` is told the virtual time now and then.
  void run(const std::function<void(Nanos)>& progress = {});

  const FabricPlan& plan() const { return plan_; }
  const std::vector<FabricFlow>& flows() const { return flows_; }
  const std::vector<std::unique_ptr<FabricHost>>& hosts() const { return hosts_; }
  SharedSwitch& leaf(uint32_t i) { return *leaves_[i]; }
  SharedSwitch& spine(uint32_t i) { return *spines_[i]; }
  FabricTotals totals() const;
  /// One at the beginning of the traffic, and one after each kSample.
  const std::vector<FabricTotals>& samples() const { return samples_; }
  static constexpr Nanos kSample{100'000};
  EventQueue& events() { return events_; }
  std::size_t qps() const { return qps_; }
  std::size_t packets_out() const { return pool_.out(); }
  std::size_t most_packets() const { return pool_.made(); }
  /// A number for all that happened: the same for the same plan.
  uint64_t digest() const;

 private:
  /// Two queue pairs and the flows that wait for room in the send queue.
  struct Connection {
    std::unique_ptr<test::TestQp> near;
    std::unique_ptr<test::TestQp> far;
    uint32_t posted = 0;
    std::deque<uint32_t> waiting{};
  };
  enum What : uint64_t { flow_starts, sample, fail, reroute };

  void add_switches();
  void add_hosts();
  void join_all();
  void join(uint32_t leaf, uint32_t spine, double gbps);
  void set_ways();
  void connect();
  void connect(Connection& connection, FabricHost& from, FabricHost& to);
  void on_event(uint64_t what) override;
  void begin_flows();
  void post(uint32_t flow, Connection& connection);
  void on_done(uint64_t tag, WcStatus status);
  static uint64_t pair_of(const FabricFlow& flow) { return uint64_t{flow.from} << 32 | flow.to; }

  FabricPlan plan_;
  Random random_;
  EventQueue events_;
  PacketPool pool_;
  std::vector<FabricFlow> flows_;
  SharedPayload payload_;
  std::size_t next_flow_ = 0;
  std::size_t ended_ = 0;
  std::size_t qps_ = 0;
  std::vector<std::unique_ptr<SharedSwitch>> leaves_;
  std::vector<std::unique_ptr<SharedSwitch>> spines_;
  std::vector<std::unique_ptr<FabricHost>> hosts_;
  std::vector<std::unique_ptr<Link>> host_links_;
  std::vector<std::vector<bool>> dead_;  // by leaf and spine
  std::vector<Connection> connections_;
  std::unordered_map<uint64_t, uint32_t> first_connection_;  // by pair_of(); the others of the pair follow
  std::vector<uint32_t> connection_of_;                      // by flow
  std::vector<FabricTotals> samples_;
};

}  // namespace uroce::sim
