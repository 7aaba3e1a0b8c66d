// Numbers for objects of which there may be more than 2^32 in the life of the daemon.
#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_set>

namespace uroce::control {

/// Hands out 1 to 2^32 - 1 in turn and then begins again, without those in use. Any thread.
class NumberPool {
 public:
  /// The caller bounds how many are in use, far below 2^32.
  uint32_t take() {
    const std::scoped_lock lock(mutex_);
    while (next_ == 0 || !used_.insert(next_).second) ++next_;
    return next_++;
  }
  /// Takes this one. False: it is in use, or 0.
  bool take(uint32_t number) {
    const std::scoped_lock lock(mutex_);
    return number != 0 && used_.insert(number).second;
  }
  /// `number` came from take(), and nothing refers to it any more.
  void give_back(uint32_t number) {
    const std::scoped_lock lock(mutex_);
    used_.erase(number);
  }
  /// For tests, which cannot take 2^32 numbers: take() goes on with `next`.
  void go_on_with(uint32_t next) {
    const std::scoped_lock lock(mutex_);
    next_ = next;
  }

 private:
  std::mutex mutex_;
  std::unordered_set<uint32_t> used_;
  uint32_t next_ = 1;
};

}  // namespace uroce::control
