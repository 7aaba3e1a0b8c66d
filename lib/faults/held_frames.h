// Copies of frames that go on later. The memory is bounded and there from the start.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/time.h"

namespace uroce::faults {

/// How a frame goes: to the device, from it, or from it to itself.
enum class Way : uint8_t { rx, tx, loopback };

class HeldFrames {
 public:
  static constexpr std::size_t kMost = 1024;
  /// A reordered frame waits so long for others to go first.
  static constexpr Nanos kLongestReorder = std::chrono::milliseconds(10);

  /// `longest`: bytes of a frame. Memory that no frame needs is not touched.
  explicit HeldFrames(std::size_t longest);

  /// Keeps a copy until `due`. False, with nothing done, when there is no room or the frame is too long.
  bool hold(Way way, std::span<const std::byte> frame, Nanos due);
  /// Keeps a copy until `overtakers` later frames to the queue pair have gone.
  bool hold_behind(Way way, std::span<const std::byte> frame, uint32_t qpn, uint32_t overtakers, Nanos now);
  /// A frame to the queue pair has gone.
  void passed(Way way, uint32_t qpn, Nanos now);
  bool empty() const { return held_.empty(); }
  std::size_t size() const { return held_.size(); }
  /// When the next frame is due; kNever for none.
  Nanos due() const { return due_; }
  /// All frames are due.
  void hurry();
  /// Calls `give` with each frame that is due, in the order of their times, until it returns false: that one stays.
  template <class Give>
  void release(Way way, Nanos now, Give give) {
    while (due_ <= now) {
      const auto next = first_due(way, now);
      if (!next || !give(bytes_of(held_[*next]))) return;
      remove(*next);
    }
  }

 private:
  struct Held {
    Way way{};
    uint16_t slot = 0;
    uint16_t length = 0;
    uint32_t qpn = 0;
    uint32_t overtakers = 0;  ///< 0: nothing has to go first
    Nanos due{0};
    uint64_t order = 0;
  };

  bool keep(const Held& held, std::span<const std::byte> frame);
  std::span<const std::byte> bytes_of(const Held& held) const {
    return {memory_.get() + std::size_t{held.slot} * longest_, held.length};
  }
  /// The index of the frame that goes next on this way.
  std::optional<std::size_t> first_due(Way way, Nanos now) const;
  void remove(std::size_t index);
  void find_due();

  const std::size_t longest_;
  std::unique_ptr<std::byte[]> memory_;
  std::vector<Held> held_;      // in no order
  std::vector<uint16_t> free_;  // slots of memory_
  uint32_t reordered_ = 0;
  uint64_t order_ = 0;
  Nanos due_ = kNever;
};

}  // namespace uroce::faults
