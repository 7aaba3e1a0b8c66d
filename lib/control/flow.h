// A receive rule of raw packet queue pairs (include/uroce/flow.h).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <uroce/error.h>
#include <uroce/flow.h>

#include "control/object_state.h"
#include "transport/datagram/flow_table.h"

namespace uroce::control {

class ControlQp;
class Device;

class Flow {
 public:
  using Table = std::vector<std::shared_ptr<ControlQp>>;
  /// `table`: the queue pairs that get the frames, of one session. Where there are several, `hash` picks one of them
  /// for each frame. The rule keeps them alive. Any thread. Errors: EINVAL (see wire::make_pattern() and
  /// wire::check_rx_hash(); a table of another size than a power of two up to kMaxIndirection; a queue pair of another
  /// session or type), ENOMEM (FlowTable::kMaxRules of the device), ETIMEDOUT, ENODEV.
  /// `as`: the rule of another daemon; EINVAL, where the device has not come so far.
  static Result<std::shared_ptr<Flow>> create(Table table, const FlowRule& rule, const RxHash& hash = {},
                                              const FlowState* as = nullptr);
  FlowState state() const;
  const Table& table() const { return table_; }
  const FlowRule& rule() const { return rule_; }
  const RxHash& hash() const { return hash_; }

  /// Any thread, at once.
  FlowCounters counters() const;

 private:
  using Counts = std::shared_ptr<transport::FlowCounts[]>;  // by engine

  Flow(Table table, const FlowRule& rule, const RxHash& hash, uint64_t id, Counts counts)
      : table_(std::move(table)), rule_(rule), hash_(hash), id_(id), counts_(std::move(counts)) {}
  /// Deleter: takes the rule from the engines.
  static void destroy(Flow* flow);

  Table table_;
  FlowRule rule_;
  RxHash hash_;
  uint64_t id_;
  Counts counts_;
};

}  // namespace uroce::control
