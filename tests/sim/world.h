// Two hosts, their QPs and flows in both directions, and the loop that drives them in virtual time.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/flow.h"
#include "tests/sim/network.h"

namespace uroce::test {

struct WorldOptions {
  uint64_t seed = 1;
  uint32_t qps = 1;
  bool both_ways = false;      ///< traffic in both directions of each QP pair
  bool xrc = false;            ///< initiators on the left, targets on the right; not both ways
  bool loopback = false;       ///< both QPs on one host
  bool slow_receiver = false;  ///< receives are posted late, so that RNR NAKs happen
  /// The application posts again at once when it sees a completion. Otherwise it does with the next event.
  bool prompt = false;
  uint32_t send_wr = 32;
  uint32_t window_packets = 64;
  /// The left and the right host's.
  std::array<Retransmission, 2> retransmission{Retransmission::go_back_n, Retransmission::go_back_n};
  CongestionAlgorithm congestion = CongestionAlgorithm::none;
  uint32_t plb_rounds = 0;
  uint32_t parking_frames = 1024;
  uint32_t max_regions = 1024;  ///< of each host
  /// Chance that a burst goes to its receiver as descriptors, as between engines of one thread, when no frame is on its
  /// way.
  double local = 0;
  bool plain_path = true;  ///< EngineConfig::plain_path
  Nanos delay{2'000};
  ConnectOptions connection{.timeout = 8};
  FlowOptions flow;
};

class World {
 public:
  World(const WorldOptions& options, FaultPolicy& faults);

  /// Runs until all is at rest: discovery is over.
  void settle();
  /// Posts `ops` one after another on every flow and runs until all have completed. Returns what does not hold.
  std::string run(const std::vector<Op>& ops);
  /// Posts `count` random operations on every flow; calls `faults_stop` once when three quarters have completed.
  std::string run_random(uint64_t count, const std::function<void()>& faults_stop);

  /// Called after each event of run() and run_random(), once its completions have been seen.
  void set_after_events(std::function<void()> act) { after_events_ = std::move(act); }

  bool failed() const;
  /// Status and operation of each flow that failed, for people.
  std::string failures() const;
  Flow& flow(std::size_t i) { return *flows_[i]; }
  std::size_t flows() const { return flows_.size(); }
  std::size_t hosts() const { return hosts_.size(); }
  Network& network() { return *network_; }
  /// Frames that went as descriptors.
  uint64_t local_frames() const { return local_frames_; }
  TestEndpoint& host(std::size_t i) { return *hosts_[i]; }

 private:
  template <class Post>
  std::string drive(Post&& post, Nanos patience);
  std::string check_end();
  std::string outstanding() const;
  void connect(uint32_t number);
  void link();

  WorldOptions options_;
  Random random_;
  Random local_random_;
  uint64_t local_frames_ = 0;
  std::vector<std::unique_ptr<TestEndpoint>> hosts_;
  std::unique_ptr<Network> network_;
  std::vector<std::unique_ptr<Flow>> flows_;
  std::function<void()> after_events_;
};

}  // namespace uroce::test
