// How long engines have waited for the memory of each user, and what follows from it.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>

#include "base/time.h"

namespace uroce::service {

/// A user may make engines wait for kAllowance in each penalty time. Beyond it the program is cut off, and the user is
/// refused such memory for the penalty time. A user that goes on with memory from before loses all of it. Not for
/// several threads at once.
class WaitAccount {
 public:
  using Time = std::chrono::steady_clock::time_point;
  enum class Verdict : uint8_t { allowed, cut_process, cut_user };

  static constexpr std::chrono::milliseconds kAllowance{50};

  /// An engine has waited for `waited` for the memory of user `uid`. A penalty of 0 allows everything.
  Verdict note(uint32_t uid, Nanos waited, Time now, std::chrono::seconds penalty);
  bool refused(uint32_t uid, Time now) const;

 private:
  struct Entry {
    Nanos waited{0};
    Time counted_until{};  ///< the waits are forgotten then
    Time refused_until{};
  };
  std::map<uint32_t, Entry> users_;  ///< those that made engines wait
};

}  // namespace uroce::service
