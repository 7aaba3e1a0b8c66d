// Senders of messages of one size: streams and one-sided latency (Initiator), ping-pongs (PingPong).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "perf/exchange.h"
#include "perf/statistics.h"

namespace uroce::perf {

/// Result of one step of a loop.
enum class Step : uint8_t { idle, progress, failed };

/// Sends the messages of one size. One thread. No call blocks, and none allocates after start().
class Sender {
 public:
  virtual ~Sender() = default;
  /// The other side is ready. Starts the clock.
  virtual void start() = 0;
  /// Posts requests and takes completions.
  virtual Step step() = 0;
  /// Set the measured time of a timed run. Without them the whole run counts.
  virtual void begin_sample() = 0;
  virtual void end_sample() = 0;
  /// Ends a timed run: sends only what is needed to finish.
  virtual void stop() = 0;
  /// The peer has reported its total number of messages.
  virtual void peer_stopped(uint64_t /*count*/) {}
  /// True when everything is posted, complete, and checked if this side checks.
  virtual bool done() const = 0;
  virtual uint64_t sent() const = 0;
  /// Messages posted but not known to be complete.
  virtual uint64_t outstanding() const = 0;
  virtual SizeReport report() const = 0;
  /// With --verify: a request to send to the peer once. Its answer comes back through granted().
  virtual std::optional<Message> request() { return std::nullopt; }
  virtual void granted() {}
  /// The reason why step() failed, in a sentence.
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
