// A discrete-event network between engines, in virtual time. A policy decides the fate of each frame.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <utility>
#include <vector>

#include "base/random.h"
#include "tests/support/test_endpoint.h"

namespace uroce::test {

/// The fate of one frame.
struct Fate {
  bool drop = false;
  bool corrupt = false;
  bool duplicate = false;
  bool plain = false;        ///< a SACK becomes the ACK or NAK of a peer that keeps nothing out of order
  bool mark = false;         ///< congestion experienced, where the frame can be marked
  Nanos delay{0};            ///< besides the network's own
  Nanos duplicate_delay{0};  ///< of the second copy
};

class FaultPolicy {
 public:
  virtual ~FaultPolicy() = default;
  /// Of a frame that is sent now.
  virtual Fate next(Nanos now) = 0;
};

/// Faults by chance.
struct FaultRates {
  double drop = 0;
  double burst = 0;  ///< for up to 20 us from here on, all are lost
  double plain = 0;
  double duplicate = 0;
  double reorder = 0;  ///< held back while others pass
  double corrupt = 0;
  double mark = 0;
  Nanos hold_max{50'000};  ///< longest hold of a reordered frame or a second copy
};

class RandomFaults : public FaultPolicy {
 public:
  RandomFaults(const FaultRates& rates, uint64_t seed) : rates_(rates), random_(seed) {}
  Fate next(Nanos now) override;
  void stop() {
    rates_ = {};
    burst_end_ = Nanos(0);
  }
  uint64_t dropped() const { return dropped_; }

 private:
  FaultRates rates_;
  Random random_;
  Nanos burst_end_{0};
  uint64_t dropped_ = 0;
};

/// The fate of each of the first frames is written down; those after them pass.
class ListedFaults : public FaultPolicy {
 public:
  /// The first frame is the first one after begin().
  enum class Start : uint8_t { now, at_begin };
  explicit ListedFaults(std::vector<Fate> fates, Start start = Start::now)
      : fates_(std::move(fates)), begun_(start == Start::now) {}
  void begin() { begun_ = true; }
  Fate next(Nanos) override { return begun_ && at_ < fates_.size() ? fates_[at_++] : Fate{}; }

 private:
  std::vector<Fate> fates_;
  bool begun_;
  std::size_t at_ = 0;
};

class Network {
 public:
  Network(std::vector<TestEndpoint*> hosts, FaultPolicy& faults, Nanos delay, uint64_t seed)
      : hosts_(std::move(hosts)), faults_(faults), delay_(delay), random_(seed) {}

  Nanos now() const { return now_; }
  /// When something happens next; kNever when every engine rests and no frame is on its way.
  Nanos next_event() const;
  /// Lets everything happen that is due at `time`.
  void advance_to(Nanos time);
  /// Runs an engine that an application has posted to, now.
  void run(std::size_t host);
  /// Prints every frame and its fate from now on.
  void set_trace(bool on) { trace_ = on; }
  bool quiet() const { return in_flight_.empty(); }
  uint64_t frames_sent() const { return frames_sent_; }
  /// Calls `watch(host, frame)` for every frame from now on, before anything happens to it.
  void set_watch(std::function<void(std::size_t host, const Frame& frame)> watch) { watch_ = std::move(watch); }

 private:
  struct InFlight {
    Nanos arrival;
    uint64_t order;
    std::size_t host;
    Frame bytes;
    bool operator>(const InFlight& other) const {
      return arrival != other.arrival ? arrival > other.arrival : order > other.order;
    }
  };
  void put(std::size_t host, const Frame& bytes, Nanos delay);
  void corrupt(Frame& frame);
  void mark(Frame& frame);
  static void make_plain(Frame& frame);
  void print(std::size_t host, const Frame& frame, const Fate& fate) const;
  std::size_t host_of(const Frame& frame) const;

  std::vector<TestEndpoint*> hosts_;
  FaultPolicy& faults_;
  Nanos delay_;
  Random random_;
  Nanos now_{1'000'000};
  bool trace_ = false;
  std::function<void(std::size_t, const Frame&)> watch_;
  uint64_t order_ = 0;
  uint64_t frames_sent_ = 0;
  uint64_t idle_steps_ = 0;
  std::priority_queue<InFlight, std::vector<InFlight>, std::greater<>> in_flight_;
};

}  // namespace uroce::test
