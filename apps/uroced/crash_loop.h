// Tells one crash from a daemon that cannot run.
#pragma once

#include <chrono>

namespace uroce::daemon {

class CrashLoop {
 public:
  static constexpr int kCrashes = 5;
  static constexpr std::chrono::seconds kShort{10};

  /// A run has crashed after `lasted`. Whether to start another: not after so many short ones in a row.
  bool start_again(std::chrono::nanoseconds lasted) {
    short_ones_ = lasted < kShort ? short_ones_ + 1 : 0;
    return short_ones_ < kCrashes;
  }

 private:
  int short_ones_ = 0;
};

}  // namespace uroce::daemon
