#include "world.h"

#include <atomic>
#include <cstdint>

#include <gtest/gtest.h>

namespace uroce::test {
namespace {

using namespace std::chrono_literals;

TEST(WorldTest, APassOfTheTestsOwnThreadTakesAMicrosecond) {
  World world(World::Mode::embedded, [] { return Nanos(10s); });
  world.add();
  for (int pass = 0; pass < 5; ++pass) world.poll();
  EXPECT_EQ(world.port().clock(), 5us);
}

// A wait of the engines took as many passes as it has microseconds: a test waited 30 s in vain for one of 655 ms.
TEST(WorldTest, TheEnginesOfAThreadWaitByTheMachinesClock) {
  std::atomic<int64_t> machine{1'000};
  World world(World::Mode::threaded, [&] { return Nanos(machine); });
  world.add();
  for (const Nanos time : {Nanos(1'000), Nanos(700ms), Nanos(1h)}) {
    machine = time.count();
    EXPECT_TRUE(world.run_until([&] { return world.port().clock() == time; })) << time.count();
  }
}

}  // namespace
}  // namespace uroce::test
