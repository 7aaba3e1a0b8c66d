#include "base/counter.h"

#include <gtest/gtest.h>

#include <thread>

namespace uroce {
namespace {

TEST(Counter, CountsAndNeverGoesBackForAReader) {
  constexpr uint64_t kAdds = 100'000;
  Counter counter;
  std::thread writer([&] {
    for (uint64_t i = 0; i < kAdds; ++i) counter.add(i % 2 + 1);
  });
  uint64_t last = 0, back = 0;
  while (last < kAdds / 2 * 3) {
    const uint64_t now = counter.get();
    if (now < last) ++back;
    last = now;
    std::this_thread::yield();
  }
  writer.join();
  EXPECT_EQ(back, 0u);
  EXPECT_EQ(counter.get(), kAdds / 2 * 3);
}

}  // namespace
}  // namespace uroce
