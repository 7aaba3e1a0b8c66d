// A statistic with one writer and any number of readers. add() needs no atomic read-modify-write.
#pragma once

#include <atomic>
#include <cstdint>

namespace uroce {

class Counter {
 public:
  /// The writer's thread only.
  void add(uint64_t n = 1) { value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed); }
  /// Any thread.
  uint64_t get() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace uroce
