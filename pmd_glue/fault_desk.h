// The fault rules of a stack: they come and go while its engines run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <uroce/error.h>

#include "base/time.h"
#include "faults/rule_set.h"
#include "pmd_glue/port_faults.h"
#include "pmd_glue/worker.h"

namespace uroce::glue {

/// Any thread, where nothing else is said.
class FaultDesk {
 public:
  struct Place {
    Worker* worker = nullptr;
    PortQueue* queue = nullptr;
    std::string device{};
  };

  /// `seed`: for rules without one.
  explicit FaultDesk(uint64_t seed) : rules_(seed) {}
  /// Nobody uses the places' engines any more. Notes what has not been told.
  ~FaultDesk();

  /// Before the first round, once: the port queues, which live until ~FaultDesk, and the first rules. Errors: those of
  /// RuleSet::add().
  Result<void> begin(std::vector<Place> places, std::string_view text, std::string_view source);
  /// Errors: those of RuleSet::add(); ETIMEDOUT (an engine does not answer): the rules are there, and hold once it
  /// does.
  Result<faults::Rules> add(std::string_view text, std::string_view source);
  /// Removes one rule, or all; kept frames go on at once when no rule is left. Errors: ENOENT; ETIMEDOUT.
  Result<void> remove(std::optional<uint32_t> number);
  faults::Rules list() const { return rules_.all(); }
  /// Notes what rules have done since the last time, a line for each rule, once a second. One thread.
  void tell(Nanos now);

 private:
  struct Told {
    uint64_t hits = 0, overflow = 0;
  };

  void note_added(const faults::Rules& added) const;
  /// Puts the rules of now, or none at all, where the engines find them, and waits until they do.
  Result<void> install(const faults::Rules& rules);
  Result<void> replace(std::vector<std::unique_ptr<PortFaults>> next);
  Result<void> wait_until(const Place& place, const auto& done) const;
  void tell_all();

  faults::RuleSet rules_;
  std::vector<Place> places_;
  std::mutex mutex_;                                  ///< guards what follows, and changes
  std::vector<std::unique_ptr<PortFaults>> current_;  ///< by place; nullptr without rules
  Nanos next_told_{0};
  std::map<uint32_t, Told> told_;  ///< by the rule's number
};

/// The text of a file of rules. Errors: EINVAL (it cannot be read, or is larger than 1 MiB).
Result<std::string> read_fault_file(const std::string& path);

}  // namespace uroce::glue
