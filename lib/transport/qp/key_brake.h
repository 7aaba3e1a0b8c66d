// Bounds how many keys a sender on an unreliable connection can try.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "memory/key_slot.h"

namespace uroce::transport {

/// On UC a wrong key costs its sender nothing: the WRITE is dropped, and the connection goes on (9.9.3, class D). After
/// kWrong of them in a period only the key that opened memory last is looked up until the period ends. One queue pair's
/// engine.
class KeyBrake {
 public:
  static constexpr uint32_t kWrong = 8;
  static constexpr Nanos kPeriod{1'000'000'000};

  /// Is `key` not to be looked up?
  bool holds(memory::Key key, Nanos now) const { return wrong_ >= kWrong && key != opened_ && now - began_ < kPeriod; }
  void on_wrong(Nanos now) {
    if (wrong_ == 0 || now - began_ >= kPeriod) {
      wrong_ = 0;
      began_ = now;
    }
    ++wrong_;
  }
  void on_opened(memory::Key key) { opened_ = key; }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [opened, wrong, began] = *this;
    archive("opened", opened);
    archive("wrong", wrong);
    archive.moment("began", began);
  }

 private:
  memory::Key opened_ = 0;
  uint32_t wrong_ = 0;  // in the period
  Nanos began_{};       // the period
};

}  // namespace uroce::transport
