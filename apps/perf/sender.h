// What sends messages of one size: streams and one-sided latency (Initiator), ping-pongs (PingPong).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "perf/exchange.h"
#include "perf/statistics.h"

namespace uroce::perf {

/// What one step of a loop did.
enum class Step : uint8_t { idle, progress, failed };

/// One size's sending side. One thread; no call blocks, and none allocates once start() has returned.
class Sender {
 public:
  virtual ~Sender() = default;
  /// The other side is ready: the clock starts.
  virtual void start() = 0;
  /// Posts what may be posted and takes what has completed.
  virtual Step step() = 0;
  /// Bounds of the measured time, for timed runs. Without them the whole run counts.
  virtual void begin_sample() = 0;
  virtual void end_sample() = 0;
  /// No more than what is needed to end well; for timed runs.
  virtual void stop() = 0;
  /// The peer has said how many messages it sent in all.
  virtual void peer_stopped(uint64_t /*count*/) {}
  /// Everything is posted and complete, and checked where this side checks.
  virtual bool done() const = 0;
  virtual uint64_t sent() const = 0;
  /// Messages posted and not yet known to be complete.
  virtual uint64_t outstanding() const = 0;
  virtual SizeReport report() const = 0;
  /// With --verify: a request for the peer, to be sent once; its answer comes back through granted().
  virtual std::optional<Message> request() { return std::nullopt; }
  virtual void granted() {}
  /// Why step() failed, in a sentence.
  const std::string& problem() const { return problem_; }

 protected:
  Step give_up(std::string problem) {
    problem_ = std::move(problem);
    return Step::failed;
  }

 private:
  std::string problem_;
};

}  // namespace uroce::perf
