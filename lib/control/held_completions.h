// Completions that fault rules keep from a program for a while. Engines write them into a queue that the program does
// not see, so that nothing costs where no rule is set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/time.h"
#include "control/queue_memory.h"
#include "queues/place.h"

namespace uroce::control {

/// The effect of rules on one completion. A queue's go on in the order in which they came, but for `mixed`.
struct CompletionFate {
  Nanos delay{0};         ///< it waits so long at least
  uint32_t together = 0;  ///< it waits for so many, itself among them, that go on at once
  Nanos patience{0};      ///< but so long at most
  bool mixed = false;     ///< work queues change places among those that go on at once
  uint64_t seed = 0;      ///< of `mixed`
  Nanos event_delay{0};   ///< its event comes so much after it
};

class CompletionRules {
 public:
  /// The fate of a completion that has come in queue `cq`. The caller holds the control lock.
  virtual CompletionFate fate_of(uint32_t cq, Nanos now) = 0;

 protected:
  ~CompletionRules() = default;
};

/// Those of one queue. One thread at a time; the engines write meanwhile.
class HeldCompletions {
 public:
  /// `to`: the program's queue. Errors: ENOMEM.
  static Result<std::unique_ptr<HeldCompletions>> create(uint32_t cq, const queues::CqPlace& to, uint32_t rings);

  /// Where an engine writes, from completion 0 on, and which header it asks for the arming.
  queues::CqHeader& header() { return *place_.header; }
  queues::RingPlace ring(uint32_t engine) const { return place_.ring(engine); }
  /// The engine writes here from now on. It has written `next` completions to the program's queue.
  void begin(uint32_t engine, uint32_t next) { producers_[engine].emplace(program_.ring(engine), next); }
  bool has(uint32_t engine) const { return producers_[engine].has_value(); }

  /// Asks the rules about the completions that have come.
  void take(CompletionRules& rules, Nanos now);
  /// Gives the program those that are due. True: an event is due, too.
  bool release(Nanos now);
  /// Gives it all that have been taken. True: an event is due.
  bool release_all(Nanos now);
  /// The engine writes to the program's queue again, behind so many completions. False besides: some had no room.
  std::pair<uint32_t, bool> end(uint32_t engine);
  /// Completions that the program does not have yet.
  uint64_t size() const;

 private:
  struct Waiting {
    queues::Cqe cqe;
    uint32_t engine;
    bool solicited;
    Nanos from{0}, until{0};
    CompletionFate fate{};
  };

  HeldCompletions(uint32_t cq, const queues::CqPlace& to, std::unique_ptr<QueueMemory> memory, uint32_t rings);
  /// How many may go now: none, one, or those of the first one's batch.
  std::size_t due(Nanos now) const;
  /// False: there is no room for the first.
  bool give(std::size_t count, Nanos now);
  void mix(std::size_t count);
  bool event_is_due(Nanos now);

  const uint32_t cq_;
  const queues::CqPlace program_;
  std::unique_ptr<QueueMemory> memory_;
  queues::CqPlace place_;
  std::vector<queues::RingConsumer> consumers_;                 ///< by engine
  std::vector<std::optional<queues::RingProducer>> producers_;  ///< by engine, of the program's queue
  std::vector<uint32_t> waiting_of_;                            ///< by engine
  std::deque<Waiting> waiting_;
  std::optional<Nanos> event_at_;
  bool event_is_solicited_ = false;
};

}  // namespace uroce::control
