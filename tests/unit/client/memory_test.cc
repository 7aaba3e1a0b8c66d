#include <cerrno>

#include "endpoints.h"

namespace uroce {
namespace {

using test::must;
using test::Side;

TEST(MemoryRegion, NamesItsBytes) {
  test::World world;
  world.add();
  Side side(world.device());
  EXPECT_EQ(side.mr.address(), side.memory.data());
  EXPECT_EQ(side.mr.length(), side.memory.size());
  const Sge sge = side.mr.sge(16, 100);
  EXPECT_EQ(sge.addr, reinterpret_cast<uint64_t>(side.memory.data()) + 16);
  EXPECT_EQ(sge.length, 100u);
  EXPECT_EQ(sge.lkey, side.mr.lkey());
}

TEST(MemoryRegion, ZeroBasedCountsFromNought) {
  test::World world;
  world.add();
  Side side(world.device());
  const auto mr = must(side.pd.register_memory(side.memory.data(), 100, Access::local_write | Access::zero_based));
  EXPECT_EQ(mr.address(), side.memory.data());
  EXPECT_EQ(mr.sge(16, 1).addr, 16u);
}

TEST(MemoryRegion, RefusesNothingAndUnsafeAccess) {
  test::World world;
  world.add();
  Side side(world.device());
  EXPECT_EQ(side.pd.register_memory(side.memory.data(), 0, Access::local_write).error().code, EINVAL);
  EXPECT_EQ(side.pd.register_memory(side.memory.data(), 8, Access::remote_write).error().code, EINVAL);
  EXPECT_EQ(side.pd.register_memory(side.memory.data(), 8, Access::remote_atomic).error().code, EINVAL);
}

}  // namespace
}  // namespace uroce
