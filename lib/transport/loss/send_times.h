// When each packet of a window was last sent, and how often.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "base/psn.h"
#include "base/time.h"

namespace uroce::transport {

/// A point in time in units of 64 ns. Two of them can be compared when they are less than 137 s apart.
class Stamp {
 public:
  Stamp() = default;
  explicit Stamp(Nanos at) : value_(static_cast<uint32_t>(static_cast<uint64_t>(at.count()) >> 6)) {}
  /// Negative when this moment is the earlier one.
  Nanos since(Stamp earlier) const { return Nanos(int64_t{static_cast<int32_t>(value_ - earlier.value_)} * 64); }

  /// As an age: another engine's clock may show another time.
  template <class Archive>
  void persist(Archive& archive) {
    auto& [value] = *this;
    const uint32_t now = Stamp(archive.now()).value_;
    uint32_t age = now - value;
    archive("age", age);
    value = now - age;
  }

 private:
  uint32_t value_ = 0;
};

/// The last time that the packet with a PSN was sent.
struct Departure {
  Stamp at{};
  uint16_t times = 0;  ///< how often it was sent; saturates

  template <class Archive>
  void persist(Archive& archive) {
    auto& [last, sent] = *this;
    archive("at", last);
    archive("times", sent);
  }
};

/// A ring by PSN. It covers the newest PSNs: kFew without other memory, a whole window with a block of a pool.
class SendTimes {
 public:
  static constexpr uint32_t kFew = 16;

  explicit SendTimes(uint32_t window) : window_(std::bit_ceil(std::max(window, 1u))), size_(std::min(window_, kFew)) {}

  Departure& operator[](Psn psn) { return ring()[psn.value() & (size_ - 1)]; }
  const Departure& operator[](Psn psn) const { return ring()[psn.value() & (size_ - 1)]; }
  uint32_t size() const { return size_; }
  /// Does the ring remember `psn`? `sent`: one past the newest PSN sent.
  bool covers(Psn psn, Psn sent) const {
    const int32_t age = distance(sent, psn);
    return age > 0 && age <= static_cast<int32_t>(size_);
  }
  void clear() { std::fill_n(ring(), size_, Departure{}); }

  // --- Other memory -----------------------------------------------------------------------------------------

  bool is_whole() const { return size_ == window_; }
  /// Covers the whole window from now on, in a block with room for that. `sent` as in covers().
  void lengthen(std::byte* block, Psn sent) {
    long_ = std::uninitialized_fill_n(reinterpret_cast<Departure*>(block), window_, Departure{}) - window_;
    for (Psn psn = sent - size_; psn != sent; ++psn)
      long_[psn.value() & (window_ - 1)] = few_[psn.value() & (kFew - 1)];
    size_ = window_;
  }
  /// Covers kFew again. Returns the block; nullptr when there was none.
  std::byte* shorten(Psn sent) {
    if (long_ == nullptr) return nullptr;
    for (Psn psn = sent - kFew; size_ > kFew && psn != sent; ++psn)
      few_[psn.value() & (kFew - 1)] = long_[psn.value() & (window_ - 1)];
    size_ = kFew;
    return reinterpret_cast<std::byte*>(std::exchange(long_, nullptr));
  }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [window, size, block, few] = *this;
    const uint32_t few_or_less = std::min(window, kFew);
    bool whole = size == window;
    archive("whole", whole);
    size = whole ? window : few_or_less;
    if constexpr (Archive::kReads) {
      if (size > kFew && block == nullptr) {
        size = few_or_less;
        return archive.refuse("finds no block: all of the engine's long_windows are in use; raise them");
      }
    }
    archive.elements("ring", std::span(size > kFew ? block : few.data(), size));
  }

 private:
  Departure* ring() { return long_ != nullptr ? long_ : few_.data(); }
  const Departure* ring() const { return long_ != nullptr ? long_ : few_.data(); }

  uint32_t window_;
  uint32_t size_;
  Departure* long_ = nullptr;  // borrowed
  std::array<Departure, kFew> few_{};
};

}  // namespace uroce::transport
