// The fault rules of a stack: they come and go while its engines run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "base/time.h"
#include "control/device.h"
#include "faults/calls.h"
#include "faults/rule_set.h"
#include "pmd_glue/clock.h"
#include "pmd_glue/fault_completions.h"
#include "pmd_glue/fault_events.h"
#include "pmd_glue/faulted_qps.h"
#include "pmd_glue/worker.h"

namespace uroce::glue {

/// Any thread, where nothing else is said.
class FaultDesk {
 public:
  struct Place {
    Worker* worker = nullptr;
    PortQueue* queue = nullptr;
    std::shared_ptr<control::Device> device{};
    Port* port = nullptr;
  };

  /// `seed`: for rules without one.
  explicit FaultDesk(uint64_t seed) : rules_(seed) {}
  /// Nobody uses the places' engines any more. Notes what has not been told.
  ~FaultDesk();

  /// Before the first round, once: the port queues, which live until ~FaultDesk, and the first rules. Errors: those of
  /// RuleSet::add(). `wake`: so that take_turn() is called soon.
  Result<void> begin(std::vector<Place> places, std::string_view text, std::string_view source,
                     std::function<void()> wake);
  /// Errors: those of RuleSet::add(); ETIMEDOUT (an engine does not answer): the rules are there, and hold once it
  /// does.
  Result<faults::Rules> add(std::string_view text, std::string_view source);
  /// Removes one rule, or all; kept frames go on at once when no rule is left. Errors: ENOENT; ETIMEDOUT.
  Result<void> remove(std::optional<uint32_t> number);
  faults::Rules list() const { return rules_.all(); }
  /// The effect of the rules on a call. It is cheap where none is for calls.
  std::optional<faults::CallFate> fate_of(const faults::MadeCall& call) const;
  /// Raises the events that are due, and notes what rules have done since the last time, a line for each rule, once a
  /// second. Returns when it wants to be called again at the latest. One thread.
  Nanos take_turn(Nanos now);

 private:
  struct Told {
    uint64_t hits = 0, overflow = 0;
  };

  void count_call_rules();
  std::vector<std::unique_ptr<PortFaults>> made_for(const faults::Rules& rules) const;
  void note_added(const faults::Rules& added) const;
  /// Puts the rules for frames and completions, or none at all, where they are found, and waits until they are.
  Result<void> install(const faults::Rules& all);
  Result<void> install_for_frames(const faults::Rules& rules);
  Result<void> replace(std::vector<std::unique_ptr<PortFaults>> next);
  Result<void> wait_until(const Place& place, const auto& done) const;
  void tell_all();

  faults::RuleSet rules_;
  const TscClock clock_;
  std::atomic<bool> has_call_rules_{false};
  std::vector<Place> places_;
  std::vector<std::unique_ptr<FaultedQps>> qps_;      ///< by place
  std::mutex mutex_;                                  ///< guards what follows, and changes
  std::vector<std::unique_ptr<PortFaults>> current_;  ///< by place; nullptr without rules
  Nanos next_told_{0};
  FaultEvents events_;
  FaultCompletions completions_;
  std::function<void()> wake_;
  std::map<uint32_t, Told> told_;  ///< by the rule's number
};

/// The text of a file of rules. Errors: EINVAL (it cannot be read, or is larger than 1 MiB).
Result<std::string> read_fault_file(const std::string& path);

}  // namespace uroce::glue
