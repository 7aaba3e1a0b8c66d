// Devices joined by a perfect wire, run by the test's own thread or by one thread of their own.
#pragma once

#include <fcntl.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "control/device.h"
#include "tests/support/frame_capture.h"

namespace uroce::test {

/// The call failed with `code`, and says `word`.
template <class T>
void expect_error(const Result<T>& result, int code, const std::string& word) {
  ASSERT_FALSE(result.has_value()) << word;
  EXPECT_EQ(result.error().code, code);
  EXPECT_NE(result.error().text.find(word), std::string::npos) << result.error().text;
}

class World;

/// A device's port, in the place of pmd_glue.
class Port final : public control::DeviceHost {
 public:
  explicit Port(World& world) : world_(world) {}

  void wake(uint32_t) override { ++wakes; }
  void wait_step() override;
  bool run_in_place(uint32_t engine, const std::function<void(Nanos)>& work) override;
  bool runs_engines_here() const override;
  Result<EthAddr> resolve(const Gid& sgid, const Gid& dgid, uint32_t user, std::chrono::nanoseconds timeout) override;
  std::optional<EthAddr> next_hop(const Gid& dgid) override {
    const auto found = moved.find(dgid);
    return found != moved.end() ? std::optional(found->second) : std::nullopt;
  }
  void join_group(const Gid& group) override { ASSERT_TRUE(groups.insert(group).second); }
  void leave_group(const Gid& group) override { ASSERT_EQ(groups.erase(group), 1u); }
  Result<Gid> source_for(const Gid& dgid) override;
  bool link_up() const override { return link.load(); }
  Nanos clock() const override;
  /// Its engines never sleep.
  Result<int> wake_descriptor(uint32_t) override { return open("/dev/null", O_WRONLY | O_CLOEXEC); }

  std::atomic<bool> link = true;
  std::atomic<std::size_t> longest{SIZE_MAX};  ///< bytes of a frame from it; the wire loses longer ones
  std::atomic<int> wakes{0};
  std::atomic<int> resolves{0};
  std::atomic<uint32_t> resolved_for{0};        ///< the user of the last call
  std::atomic<bool> unanswered{false};          ///< no neighbour answers
  std::atomic<int> waits{0};                    ///< of callers for an answer that did not come
  std::set<Gid> groups;                         ///< joined
  std::map<Gid, EthAddr> moved;                 // the addresses of next_hop()
  EthAddr last_destination{};                   ///< of the frames sent
  std::atomic<bool> references_payload{false};  ///< the value of every sink of this port
  std::atomic<bool> frozen{false};              ///< its engines are not polled
  std::atomic<bool> asleep{false};              ///< its engines sleep: callers work in their place
  std::atomic<int> visits{0};                   ///< of callers in the place of an engine
  std::atomic<int> steps{0};                    ///< of callers that wait

  /// One pass over the port's engines. True when anything moved.
  bool poll(Nanos now);

 private:
  friend class World;
  struct Sink final : FrameCapture {
    explicit Sink(const Port& port) : owner(port) {}
    bool references_payload() override { return owner.references_payload; }
    const Port& owner;
  };

  World& world_;
  std::shared_ptr<control::Device> device_;
  std::vector<std::unique_ptr<Sink>> sinks_;  // by engine
  std::vector<std::deque<Frame>> inboxes_;    // by engine
};

class World {
 public:
  enum class Mode { embedded, threaded };
  /// The engines' clock. Embedded: a pass takes a microsecond. Threaded: `machine`, by which the test and the
  /// connection manager wait, too; on a busy machine a pass may take milliseconds.
  explicit World(Mode mode = Mode::embedded, std::function<Nanos()> machine = steady_time)
      : mode_(mode), machine_(std::move(machine)) {}
  ~World();

  /// Device number n gets GID 10.0.0.(n + 1) and fe80::(n + 1), and MAC 02:..:(n + 1), unless `config` has them.
  control::Device& add(control::DeviceConfig config = {});
  std::shared_ptr<control::Device> device(std::size_t n = 0) const { return ports_[n]->device_; }
  Port& port(std::size_t n = 0) { return *ports_[n]; }
  /// The connection managers' frames so far, in order. Threaded or not, a copy.
  std::vector<Frame> management() {
    const std::scoped_lock lock(mutex_);
    return management_;
  }
  static Gid gid(std::size_t n) { return Gid::from_ipv4(0x0a000001 + static_cast<uint32_t>(n)); }

  /// Embedded: called after each pass over all engines on the thread that made the world.
  void set_turn(std::function<void()> turn) { turn_ = std::move(turn); }
  /// One pass over all engines of all devices; embedded: a microsecond later.
  bool poll();
  /// Polls (embedded) or yields until `done` or for a bounded while; returns done().
  template <class Done>
  bool run_until(Done done) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!done()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      if (mode_ == Mode::embedded) {
        poll();
      } else {
        std::this_thread::yield();
      }
    }
    return true;
  }
  /// Ends the polling and shuts the devices down, as a stack does when it goes.
  void stop();

 private:
  friend class Port;
  // A thread that yields waits until each thread that computes has had its slice. One that sleeps comes back before.
  static constexpr std::chrono::microseconds kNap{20};
  static Nanos steady_time() { return std::chrono::steady_clock::now().time_since_epoch(); }
  void run();
  void deliver(Port& from, const SentFrame& frame);

  const Mode mode_;
  const std::function<Nanos()> machine_;
  std::function<void()> turn_;
  const std::thread::id maker_ = std::this_thread::get_id();
  Nanos now_{0};
  std::vector<Frame> management_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::recursive_mutex mutex_;  // threaded: the poller, and resolve() of any thread
  std::atomic<bool> stopping_{false};
  std::thread poller_;
};

}  // namespace uroce::test
