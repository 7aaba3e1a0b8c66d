// A hierarchical timer wheel: arming, cancelling and firing cost O(1) and allocate nothing.
// It has four levels of 256 slots. With a tick of 4.096 us (the unit of IBTA's timeouts) they cover 4.9 hours, with a
// tick of 512 ns 36 minutes. A later deadline stays in the last level and is inserted again each time its slot comes
// up.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace uroce {

/// Embed one in each object that has a deadline. `owner` and `kind` are for the callback.
struct TimerNode {
  TimerNode* next = nullptr;
  TimerNode* prev = nullptr;  ///< nullptr: not armed
  uint64_t tick = 0;
  uint16_t place = 0;
  uint16_t kind = 0;
  void* owner = nullptr;
  bool armed() const { return prev != nullptr; }
};

template <int64_t TickNanos>
class BasicTimerWheel {
 public:
  static constexpr int64_t kTickNanos = TickNanos;

  BasicTimerWheel() {
    for (auto& head : heads_) head.next = head.prev = &head;
  }
  BasicTimerWheel(const BasicTimerWheel&) = delete;
  BasicTimerWheel& operator=(const BasicTimerWheel&) = delete;

  /// Arms or moves `node`: it fires at the first advance() at or after `deadline`, up to one tick late.
  void arm(TimerNode& node, Nanos deadline) {
    cancel(node);
    node.tick = static_cast<uint64_t>(deadline.count() + kTickNanos - 1) / kTickNanos;
    if (node.tick <= now_) node.tick = now_ + 1;
    insert(node);
    ++armed_;
  }

  void cancel(TimerNode& node) {
    if (!node.armed()) return;
    unlink(node);
    --armed_;
  }

  /// Fires every node that is due. `fire(node)` may arm and cancel any node; it must not call advance().
  template <class Fire>
  void advance(Nanos now, Fire&& fire) {
    const uint64_t target = static_cast<uint64_t>(now.count()) / kTickNanos;
    if (target < busy_from_) [[likely]] {
      if (target > now_) now_ = target;
      return;
    }
    fire_until(target, fire);
  }

  /// As advance() where nothing is due; otherwise that is left to it. Before arm(), so that a deadline that has passed
  /// counts from `now`.
  void catch_up(Nanos now) {
    const uint64_t target = static_cast<uint64_t>(now.count()) / kTickNanos;
    if (target < busy_from_ && target > now_) now_ = target;
  }
  /// Until then advance() finds nothing, unless a node is armed. kNever: none is armed.
  Nanos quiet_until() const {
    return busy_from_ == UINT64_MAX ? kNever : Nanos(static_cast<int64_t>(busy_from_) * kTickNanos);
  }

  /// Takes the next node that is due, which is not armed any more. nullptr: none is due, and time has advanced to
  /// `now`. Any node may be armed or cancelled between two calls. Once begun, call it until it returns nullptr.
  TimerNode* take_due(Nanos now) {
    const uint64_t target = static_cast<uint64_t>(now.count()) / kTickNanos;
    for (;;) {
      TimerNode& head = heads_[now_ & kSlotMask];
      if (head.next != &head) {
        TimerNode& node = *head.next;
        unlink(node);
        --armed_;
        return &node;
      }
      if (busy_from_ <= now_) busy_from_ = armed_ == 0 ? UINT64_MAX : next_busy_tick();
      if (busy_from_ > target) {
        if (target > now_) now_ = target;
        return nullptr;
      }
      now_ = busy_from_;
      cascade();
    }
  }

  // --- The same wheel elsewhere -----------------------------------------------------------------------------

  struct Clock {
    uint64_t now = 0, busy_from = UINT64_MAX;
  };
  Clock clock() const { return {now_, busy_from_}; }
  /// Calls `visit(node)` for each armed node, in an order in which restore() leaves them as they are.
  template <class Visit>
  void for_each(Visit&& visit) const {
    for (const TimerNode& head : heads_) {
      for (const TimerNode* node = head.next; node != &head; node = node->next) visit(*node);
    }
  }
  /// Sets the clock of a wheel that has no nodes.
  void restore(const Clock& clock) {
    now_ = clock.now;
    busy_from_ = clock.busy_from;
  }
  static constexpr uint16_t kPlaces = 1024;
  /// Arms `node`, whose tick and place, less than kPlaces, come from another wheel.
  void restore(TimerNode& node) {
    link(node);
    ++armed_;
  }

  /// The time by which advance() must run, at the latest at the earliest deadline's tick. kNever when no node is armed.
  Nanos next_deadline() const {
    if (armed_ == 0) return kNever;
    return Nanos(static_cast<int64_t>(next_busy_tick()) * kTickNanos);
  }

 private:
  static constexpr uint32_t kLevels = 4;
  static constexpr uint32_t kSlotBits = 8;
  static constexpr uint32_t kSlots = 1u << kSlotBits;
  static constexpr uint64_t kSlotMask = kSlots - 1;

  // Leaves now_ at `target`.
  template <class Fire>
  void fire_until(uint64_t target, Fire&& fire) {
    for (;;) {
      busy_from_ = armed_ == 0 ? UINT64_MAX : next_busy_tick();
      if (busy_from_ > target) {
        now_ = target;
        return;
      }
      now_ = busy_from_;
      cascade();
      TimerNode& head = heads_[now_ & kSlotMask];
      while (head.next != &head) {
        TimerNode& node = *head.next;
        unlink(node);
        --armed_;
        fire(node);
      }
    }
  }

  void insert(TimerNode& node) {
    const uint64_t ahead = node.tick - now_;
    uint32_t level = 0;
    while (level + 1 < kLevels && (ahead >> (kSlotBits * (level + 1))) != 0) ++level;
    uint64_t tick = node.tick;
    const uint64_t reach = uint64_t{1} << (kSlotBits * kLevels);
    if (ahead >= reach) tick = now_ + reach - 1;
    const uint32_t slot = static_cast<uint32_t>(tick >> (kSlotBits * level)) & kSlotMask;
    node.place = static_cast<uint16_t>(level * kSlots + slot);
    const uint64_t busy_tick = tick >> (kSlotBits * level) << (kSlotBits * level);
    if (busy_tick < busy_from_) busy_from_ = busy_tick;
    link(node);
  }

  void link(TimerNode& node) {
    TimerNode& head = heads_[node.place];
    node.prev = head.prev;
    node.next = &head;
    head.prev->next = &node;
    head.prev = &node;
    busy_[node.place / 64] |= uint64_t{1} << (node.place % 64);
  }

  void unlink(TimerNode& node) {
    node.prev->next = node.next;
    node.next->prev = node.prev;
    node.next = node.prev = nullptr;
    TimerNode& head = heads_[node.place];
    if (head.next == &head) busy_[node.place / 64] &= ~(uint64_t{1} << (node.place % 64));
  }

  // When the wheel enters a slot of a higher level, its nodes move to the levels below.
  void cascade() {
    for (uint32_t level = 1; level < kLevels; ++level) {
      if ((now_ & ((uint64_t{1} << (kSlotBits * level)) - 1)) != 0) return;
      TimerNode& head = heads_[level * kSlots + ((now_ >> (kSlotBits * level)) & kSlotMask)];
      TimerNode* node = head.next;
      head.next = head.prev = &head;
      const uint32_t place = static_cast<uint32_t>(&head - heads_.data());
      busy_[place / 64] &= ~(uint64_t{1} << (place % 64));
      while (node != &head) {
        TimerNode* next = node->next;
        insert(*node);
        node = next;
      }
    }
  }

  // The next tick after now_ at which a level-0 slot fires or a higher slot cascades; UINT64_MAX: there is none.
  uint64_t next_busy_tick() const {
    uint64_t best = UINT64_MAX;
    for (uint32_t level = 0; level < kLevels; ++level) {
      const uint32_t shift = kSlotBits * level;
      const uint64_t base = now_ >> shift;
      if (best <= (base + 1) << shift) break;  // Nothing of this level or above it comes before.
      const uint32_t distance = next_busy_slot(level, static_cast<uint32_t>((base + 1) & kSlotMask));
      if (distance == kSlots) continue;
      const uint64_t tick = (base + 1 + distance) << shift;
      if (tick < best) best = tick;
    }
    return best;
  }

  // The number of slots from `from`, wrapping around, to the level's first busy slot; kSlots when none is busy.
  uint32_t next_busy_slot(uint32_t level, uint32_t from) const {
    for (uint32_t i = 0; i < kSlots;) {
      const uint32_t slot = (from + i) & kSlotMask;
      const uint64_t word = busy_[(level * kSlots + slot) / 64] >> (slot % 64);
      if (word != 0) {
        const uint32_t found = i + static_cast<uint32_t>(std::countr_zero(word));
        return found < kSlots ? found : kSlots;
      }
      i += 64 - slot % 64;
    }
    return kSlots;
  }

  uint64_t now_ = 0;
  uint64_t armed_ = 0;
  uint64_t busy_from_ = UINT64_MAX;  ///< before this tick no slot fires or cascades: advance() costs a comparison
  static_assert(kPlaces == kLevels * kSlots);
  std::array<TimerNode, kLevels * kSlots> heads_;
  std::array<uint64_t, kLevels * kSlots / 64> busy_{};
};

/// Timeouts use this one.
using TimerWheel = BasicTimerWheel<4096>;
/// For pacing: a tick is the time of a full frame at 65 Gb/s.
using PacingWheel = BasicTimerWheel<512>;

}  // namespace uroce
