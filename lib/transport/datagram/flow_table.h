// The receive rules of a device. Every engine has the whole list, so that a frame finds its rule on whichever engine it
// arrived; only the engine of the rule's queue pair delivers it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <uroce/flow.h>

#include "base/counter.h"
#include "wire/flow_key.h"
#include "wire/packet.h"
#include "wire/rx_hash.h"

namespace uroce::transport {

/// Rules see no frame that the stack needs for itself; only sniffers do.
inline bool is_for_rules(std::span<const std::byte> frame) { return wire::peek(frame).kind == wire::Peek::Kind::other; }

/// Receivers of a frame: the rule that takes it, the sniffers, or both. The rule alone gets a frame that was sent to
/// this device, and sniffers alone the copy of one that was sent.
enum class FrameTakers : uint8_t { all, rule, sniffers };

/// Receive-side scaling: a frame's hash, modulo their number, picks its queue pair.
struct IndirectionTable {
  RxHash hash{};
  std::vector<uint32_t> qpns{};  ///< 1..kMaxIndirection, a power of two

  uint32_t pick(const wire::FlowKey& key) const { return qpns[wire::rx_hash(hash, key) & (qpns.size() - 1)]; }
};

/// Counts of what a rule has given to the queue pairs of one engine, which writes them.
struct alignas(64) FlowCounts {
  Counter packets;
  Counter bytes;

  void add(std::size_t frame_bytes) {
    packets.add();
    bytes.add(frame_bytes);
  }
};

/// A rule as control hands it to the engines.
struct FlowEntry {
  uint64_t id = 0;   ///< of the device; a later rule has a larger one
  uint32_t qpn = 0;  ///< who gets the frames, where there is no `table`
  std::shared_ptr<const IndirectionTable> table{};
  FlowType type = FlowType::normal;
  uint16_t priority = 0;
  uint32_t tag = 0;  ///< FlowRule::tag
  wire::FlowPattern pattern{};
  std::shared_ptr<FlowCounts> counts{};  ///< of the engine that has the entry; none where nobody asks

  uint32_t receiver(const wire::FlowKey& key) const { return table ? table->pick(key) : qpn; }
};

/// Changes between bursts only. Looking a frame up takes time in proportion to the number of rules, which kMaxRules
/// bounds: about a microsecond.
class FlowTable {
 public:
  static constexpr std::size_t kMaxRules = 1024;

  bool empty() const { return rules_.empty() && sniffers_.empty(); }
  bool has_sniffers() const { return !sniffers_.empty(); }
  std::size_t size() const { return rules_.size() + sniffers_.size(); }
  /// False: there are kMaxRules.
  bool add(const FlowEntry& entry) {
    if (size() == kMaxRules) return false;
    ++revision_;
    if (entry.type == FlowType::sniffer) {
      sniffers_.push_back(entry);
    } else {
      rules_.insert(std::ranges::upper_bound(rules_, rank(entry), {}, rank), entry);
    }
    return true;
  }
  void remove(uint64_t id) {
    ++revision_;
    std::erase_if(rules_, [id](const FlowEntry& entry) { return entry.id == id; });
    std::erase_if(sniffers_, [id](const FlowEntry& entry) { return entry.id == id; });
  }
  std::span<const FlowEntry> rules() const { return rules_; }
  std::span<const FlowEntry> sniffers() const { return sniffers_; }
  /// Another number after each change.
  uint32_t revision() const { return revision_; }
  /// The QPN that a rule gives the frame to, on each engine the same; 0 when none does.
  uint32_t match(std::span<const std::byte> frame) const {
    if (rules_.empty()) return 0;
    const wire::FlowKey key = wire::flow_key(frame);
    const FlowEntry* rule = find(key);
    return rule != nullptr ? rule->receiver(key) : 0;
  }
  /// Calls `give` with each rule of `takers` that gets the frame, and its QPN. True: a rule takes it.
  template <class Give>
  bool distribute(std::span<const std::byte> frame, FrameTakers takers, Give give) const {
    const wire::FlowKey key = wire::flow_key(frame);
    if (takers != FrameTakers::rule) {
      for (const FlowEntry& sniffer : sniffers_) give(sniffer, sniffer.receiver(key));
    }
    const FlowEntry* rule = takers != FrameTakers::sniffers && is_for_rules(frame) ? find(key) : nullptr;
    if (rule != nullptr) give(*rule, rule->receiver(key));
    return rule != nullptr;
  }

 private:
  const FlowEntry* find(const wire::FlowKey& key) const {
    const auto found =
        std::ranges::find_if(rules_, [&key](const FlowEntry& rule) { return rule.pattern.matches(key); });
    return found != rules_.end() ? &*found : nullptr;
  }
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
  uint32_t revision_ = 0;
};

}  // namespace uroce::transport
