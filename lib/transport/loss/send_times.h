// When each packet of a window was last sent, and how often.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

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

/// A ring by PSN. It covers the newest `window` PSNs.
class SendTimes {
 public:
  explicit SendTimes(uint32_t window) : ring_(std::bit_ceil(window)) {}

  Departure& operator[](Psn psn) { return ring_[psn.value() & (ring_.size() - 1)]; }
  const Departure& operator[](Psn psn) const { return ring_[psn.value() & (ring_.size() - 1)]; }
  /// Does the ring remember `psn`? `sent`: one past the newest PSN sent.
  bool covers(Psn psn, Psn sent) const {
    const int32_t age = distance(sent, psn);
    return age > 0 && age <= static_cast<int32_t>(ring_.size());
  }
  void clear() { std::ranges::fill(ring_, Departure{}); }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [ring] = *this;
    archive.elements("ring", ring);
  }

 private:
  std::vector<Departure> ring_;
};

}  // namespace uroce::transport
