// Latency by ping-pong, as in perftest: for WRITE the receiver polls memory, for SEND it uses completions.
#pragma once

#include <array>

#include "perf/endpoint.h"
#include "perf/plan.h"
#include "perf/receiver.h"
#include "perf/sender.h"
#include "perf/verify.h"

namespace uroce::perf {

class PingPong final : public Sender {
 public:
  /// The client sends first and measures. `receiver` is for SEND, null for WRITE. Clears the mark that a WRITE sets.
  PingPong(Endpoint& endpoint, const Options& options, const Plan& plan, bool client, Receiver* receiver);

  void start() override { started_ = true; }
  Step step() override;
  void begin_sample() override;
  void end_sample() override;
  void stop() override;
  void peer_stopped(uint64_t count) override;
  bool done() const override;
  uint64_t sent() const override { return sent_; }
  uint64_t outstanding() const override { return sent_ - completed_; }
  SizeReport report() const override;

 private:
  bool arrived();
  Step take_message();
  Step send_message();
  Step poll_completion();
  std::byte mark(uint64_t count) const { return static_cast<std::byte>(count); }
  std::optional<std::string> wrong_bytes() const;

  Endpoint& endpoint_;
  const Options& options_;
  const Plan plan_;
  const bool client_;
  Receiver* const receiver_;
  QueuePair& qp_;
  std::byte* const out_;
  std::byte* const in_;
  Sge sge_{};
  SendRequest request_{};
  std::array<Completion, 1> completion_{};
  bool started_ = false;
  uint64_t limit_;  ///< messages that this side sends
  uint64_t sent_ = 0;
  uint64_t completed_ = 0;
  uint64_t taken_ = 0;  ///< messages received from the peer

  bool sampling_;
  uint64_t sent_ns_ = 0;
  bool stamped_ = false;  ///< sent_ns_ is the time of the last arrival, and of the next message
  uint64_t begin_ns_ = 0, end_ns_ = 0;
  Histogram histogram_;
};

}  // namespace uroce::perf
