// Sends WRITEs, READs, SENDs or atomics on many QPs. With a depth of one it measures their latency.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "perf/endpoint.h"
#include "perf/plan.h"
#include "perf/sender.h"
#include "perf/verify.h"

namespace uroce::perf {

class Initiator final : public Sender {
 public:
  /// `direction` selects the patterns that this side sends. Keeps references to all arguments but the plan.
  Initiator(Endpoint& endpoint, const Options& options, const Plan& plan, uint32_t direction);

  void start() override;
  Step step() override;
  void begin_sample() override;
  void end_sample() override;
  void stop() override;
  bool done() const override;
  uint64_t sent() const override { return posted_; }
  uint64_t outstanding() const override { return posted_ - completed_; }
  SizeReport report() const override;
  std::optional<Message> request() override;
  void granted() override;

 private:
  /// A QP's stream; one cache line.
  struct alignas(64) QpStream {
    QueuePair* qp;
    std::byte* local;
    uint64_t remote;
    uint64_t posted;
    uint64_t completed;
    uint64_t limit;              ///< messages to post until the next round or the end
    uint32_t slot;               ///< slot of the next post
    uint32_t until_signal : 31;  ///< posts until the next signaled one, including it
    uint32_t pending : 1;        ///< listed in pending_
  };

  /// A verified run goes in rounds: every QP goes to the same iteration, then the peer checks the memory, or fills it
  /// again.
  enum class RoundState : uint8_t { none, ask, waiting, running, finished };

  void make_requests();
  bool fill(uint32_t index);
  void build(const QpStream& stream, uint32_t index, uint32_t count);
  void enqueue(uint32_t index);
  void set_operands(SendRequest& request, uint32_t slot, uint32_t index, uint64_t iteration) const;
  void advance(QpStream& stream, uint32_t count);
  bool complete(const Completion& completion);
  bool verify(const QpStream& stream, uint32_t index, uint64_t iteration);
  void next_round();
  void run_round();
  void round_completed();
  void end_round();
  bool last_round() const { return stopping_ || (!options_.timed() && round_end_ == options_.iters); }
  bool in_rounds() const { return options_.verify && options_.test.verb != Verb::send; }
  bool writes_words() const;  ///< ATOMIC WRITEs: nothing comes back to be checked
  AtomicModel model(uint32_t index, uint32_t slot) const;

  Endpoint& endpoint_;
  const Options& options_;
  const Plan plan_;
  const uint32_t direction_;
  CompletionQueue& cq_;
  std::vector<QpStream> streams_;
  std::vector<uint32_t> pending_;  ///< streams to post on: just opened, or refused by a full queue
  std::vector<Sge> sges_;
  const uint32_t per_message_;  ///< work requests of one message; the last is the one that may be signaled
  std::vector<SendRequest> requests_;
  std::array<Completion, 64> completions_{};
  uint64_t posted_ = 0;
  uint64_t completed_ = 0;
  uint64_t verified_ = 0;
  uint64_t target_ = ~uint64_t{0};  ///< total number of messages
  bool stopping_ = false;

  RoundState round_ = RoundState::none;
  uint64_t round_begin_ = 0;
  uint64_t round_end_ = 0;

  const bool latency_;
  bool sampling_;
  uint64_t posted_ns_ = 0;
  uint64_t begin_ns_ = 0, end_ns_ = 0;
  uint64_t begin_count_ = 0, end_count_ = 0;
  uint64_t begin_ticks_ = 0;
  double ticks_per_ns_ = 1;
  Histogram histogram_;
  PeakRecorder peak_;
};

}  // namespace uroce::perf
