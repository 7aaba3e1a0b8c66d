// The penalty for punching holes in registered memory (limits.punch_penalty): how long engines have waited for the
// memory of each user, what follows from it, and what users and operators are told.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string_view>

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
  /// Whether the user may register only memory that makes no engine wait. False where the penalty is 0.
  bool refused(uint32_t uid, Time now, std::chrono::seconds penalty) const;

  /// Whether the verdict disconnects a client of that user, which is not privileged.
  static constexpr bool disconnects(Verdict verdict, bool same_process) {
    return verdict == Verdict::cut_user || (verdict == Verdict::cut_process && same_process);
  }
  /// The rest of a log line about a wait.
  static std::string_view consequence(Verdict verdict);
  /// The answer to a user that is refused.
  static constexpr std::string_view kRefusal =
      "cannot register memory in pages of 4 KiB: engines have waited for memory that this user punched, so it may "
      "register only huge pages, or memfds with F_SEAL_WRITE and F_SEAL_SHRINK, for a while (limits.punch_penalty)";
  static constexpr std::string_view kDeviceRefusal =
      "cannot open a device: engines have waited for memory that this user punched, so it may open none for a while "
      "(limits.punch_penalty)";

 private:
  struct Entry {
    Nanos waited{0};
    Time counted_until{};  ///< the waits are forgotten then
    Time refused_until{};
  };
  std::map<uint32_t, Entry> users_;  ///< those that made engines wait
};

}  // namespace uroce::service
