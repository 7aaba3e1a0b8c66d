// The receive rules of a device. Every engine has the whole list, so that a frame finds its rule on whichever engine it
// arrived; only the engine of the rule's queue pair delivers it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <uroce/flow.h>

#include "wire/flow_key.h"
#include "wire/packet.h"

namespace uroce::transport {

/// Rules see no frame that the stack needs for itself; only sniffers do.
inline bool is_for_rules(std::span<const std::byte> frame) { return wire::peek(frame).kind == wire::Peek::Kind::other; }

/// A rule as control hands it to the engines.
struct FlowEntry {
  uint64_t id = 0;   ///< of the device; a later rule has a larger one
  uint32_t qpn = 0;  ///< who gets the frames
  FlowType type = FlowType::normal;
  uint16_t priority = 0;
  wire::FlowPattern pattern{};
};

/// Changes between bursts only. Looking a frame up takes time in proportion to the number of rules, which kMaxRules
/// bounds: about a microsecond.
class FlowTable {
 public:
  static constexpr std::size_t kMaxRules = 1024;

  bool empty() const { return rules_.empty() && sniffers_.empty(); }
  std::size_t size() const { return rules_.size() + sniffers_.size(); }
  /// False: there are kMaxRules.
  bool add(const FlowEntry& entry) {
    if (size() == kMaxRules) return false;
    if (entry.type == FlowType::sniffer) {
      sniffers_.push_back(entry);
    } else {
      rules_.insert(std::ranges::upper_bound(rules_, rank(entry), {}, rank), entry);
    }
    return true;
  }
  void remove(uint64_t id) {
    std::erase_if(rules_, [id](const FlowEntry& entry) { return entry.id == id; });
    std::erase_if(sniffers_, [id](const FlowEntry& entry) { return entry.id == id; });
  }
  /// The QPN that a rule gives the frame to; 0 when none does.
  uint32_t match(std::span<const std::byte> frame) const {
    if (rules_.empty()) return 0;
    const wire::FlowKey key = wire::flow_key(frame);
    for (const FlowEntry& rule : rules_) {
      if (rule.pattern.matches(key)) return rule.qpn;
    }
    return 0;
  }
  /// Those that get a copy of every frame.
  std::span<const FlowEntry> sniffers() const { return sniffers_; }

 private:
  struct Rank {
    FlowType type;
    uint16_t priority;
    uint64_t id;
    friend auto operator<=>(const Rank&, const Rank&) = default;
  };
  // The defaults come last, and of them the one for groups first.
  static Rank rank(const FlowEntry& entry) {
    const FlowType type = entry.type == FlowType::all_default ? FlowType::sniffer : entry.type;
    return {type, entry.priority, entry.id};
  }

  std::vector<FlowEntry> rules_;  // in the order of rank()
  std::vector<FlowEntry> sniffers_;
};

}  // namespace uroce::transport
