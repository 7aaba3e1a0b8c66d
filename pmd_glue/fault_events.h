// Fault rules that raise events, and take links and addresses away, each at its time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "control/device.h"
#include "faults/rule_set.h"
#include "pmd_glue/port.h"

namespace uroce::glue {

/// One thread at a time.
class FaultEvents {
 public:
  struct Place {
    std::shared_ptr<control::Device> device{};
    Port* port = nullptr;
  };

  /// A device and its port. Those that are there already are not added again.
  void add_place(Place place);
  /// Rules that have just begun; those of other subjects are ignored.
  void add(const faults::Rules& rules);
  /// All rules but these have ended: links and addresses that were away for them come back.
  void keep(const faults::Rules& rules);
  /// Does what is due, and returns when the next is due.
  Nanos take_turn(Nanos now);

 private:
  struct Due {
    Nanos at{0};
    uint64_t left = 1;  ///< how often it is still to be raised
    bool ends = false;  ///< what was taken away comes back
    std::shared_ptr<faults::ActiveRule> rule{};
  };
  template <class Work>
  void at_places(const faults::Rule& rule, Work work) const;
  /// Returns what is due after this, if anything.
  std::optional<Due> run(const Due& due, Nanos now);
  static void raise(control::Device& device, const faults::Rule& rule);
  void take_gids_away() const;

  std::vector<Place> places_;
  faults::Rules gone_;  // for which addresses are away
  std::vector<Due> due_;
};

}  // namespace uroce::glue
