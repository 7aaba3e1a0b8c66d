#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "endpoints.h"
#include "tests/support/recording.h"

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

TEST(MemoryRegion, RefusesUnsafeAccess) {
  test::World world;
  world.add();
  Side side(world.device());
  EXPECT_EQ(side.pd.register_memory(side.memory.data(), 8, Access::remote_write).error().code, EINVAL);
  EXPECT_EQ(side.pd.register_memory(side.memory.data(), 8, Access::remote_atomic).error().code, EINVAL);
  EXPECT_EQ(side.pd.register_memory(side.memory.data(), 8, Access::flush_persistent).error().code, EOPNOTSUPP);
}

TEST(MemoryRegion, OfNothingReadsAsZerosAndDropsWhatIsWritten) {
  test::World world;
  world.add();
  Side a(world.device()), b(world.device());
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  const auto nothing = must(a.pd.create_null_region());
  EXPECT_EQ(nothing.rkey(), 0u);
  std::ranges::fill(a.memory, std::byte{1});
  std::ranges::fill(b.memory, std::byte{2});
  const auto move = [&](WrOpcode opcode, std::span<const Sge> sges) {
    EXPECT_EQ(qa.post_send({.opcode = opcode,
                            .flags = SendFlag::signaled,
                            .sges = sges,
                            .remote_addr = reinterpret_cast<uint64_t>(b.memory.data()),
                            .rkey = b.mr.rkey()}),
              0);
    return test::next(world, a.cq).status;
  };
  // Any address will do, and several packets' worth.
  const std::array gathered{Sge{0xdead0000, 5000, nothing.lkey()}, a.mr.sge(0, 100)};
  EXPECT_EQ(move(WrOpcode::rdma_write, gathered), WcStatus::success);
  EXPECT_EQ(std::count(b.memory.begin(), b.memory.begin() + 5000, std::byte{0}), 5000);
  EXPECT_EQ(std::count(b.memory.begin() + 5000, b.memory.begin() + 5100, std::byte{1}), 100);

  std::ranges::fill(b.memory, std::byte{3});
  const std::array scattered{a.mr.sge(0, 100), Sge{0, 9000, nothing.lkey()}, a.mr.sge(100, 100)};
  EXPECT_EQ(move(WrOpcode::rdma_read, scattered), WcStatus::success);
  EXPECT_EQ(std::count(a.memory.begin(), a.memory.begin() + 200, std::byte{3}), 200);
  EXPECT_EQ(a.memory[200], std::byte{1});
  EXPECT_EQ(move(WrOpcode::rdma_write, std::array{Sge{0, 4096, nothing.lkey()}}), WcStatus::success);
  EXPECT_EQ(b.memory[0], std::byte{0}) << "the dropped bytes are nowhere";
}

TEST(MemoryRegion, OfNothingIsNotForPeersAndCannotChange) {
  test::World world;
  world.add();
  Side a(world.device()), b(world.device());
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  auto nothing = must(b.pd.create_null_region());
  EXPECT_EQ(nothing.reregister(nullptr, b.memory.data(), 8, nullptr).error().code, EINVAL);
  EXPECT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = std::array{a.mr.sge(0, 8)},
                          .rkey = nothing.lkey()}),
            0);
  EXPECT_EQ(test::next(world, a.cq).status, WcStatus::remote_access_error);
}

TEST(DeviceMemory, IsReachedByCallsAndByRegions) {
  test::World world;
  world.add();
  Side a(world.device()), b(world.device());
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  auto memory = must(b.context.allocate_device_memory(10000));
  EXPECT_EQ(memory.length(), 10000u);
  auto region = must(b.pd.register_device_memory(memory, 1000, 8000, Side::kAll));
  std::ranges::fill(a.memory, std::byte{7});
  const auto write = [&](uint64_t to, uint32_t bytes) {
    EXPECT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                            .flags = SendFlag::signaled,
                            .sges = std::array{a.mr.sge(0, bytes)},
                            .remote_addr = to,
                            .rkey = region.rkey()}),
              0);
    return test::next(world, a.cq).status;
  };
  EXPECT_EQ(write(500, 100), WcStatus::success);
  std::array<std::byte, 102> read{};
  must(memory.copy_from(1499, read));
  EXPECT_EQ(read[0], std::byte{0}) << "zero at first";
  EXPECT_EQ(std::count(read.begin(), read.end(), std::byte{7}), 100);
  must(memory.copy_to(9999, std::array{std::byte{9}}));
  EXPECT_EQ(memory.copy_to(9999, read).error().code, EINVAL);
  EXPECT_EQ(memory.copy_from(SIZE_MAX, read).error().code, EINVAL);
  EXPECT_EQ(write(7999, 2), WcStatus::remote_access_error);
}

TEST(DeviceMemory, IsBoundedAndGivenBack) {
  test::World world;
  world.add();
  Side a(world.device()), b(world.device());
  const uint64_t most = a.context.info().max_device_memory;
  EXPECT_EQ(a.context.allocate_device_memory(0).error().code, EINVAL);
  EXPECT_EQ(a.context.allocate_device_memory(most + 1).error().code, ENOMEM);
  for (int round = 0; round < 3; ++round) {
    auto all = must(a.context.allocate_device_memory(most));
    EXPECT_EQ(a.context.allocate_device_memory(1).error().code, ENOMEM);
    EXPECT_EQ(b.pd.register_device_memory(all, 0, 1, {}).error().code, EINVAL) << "another context's";
    EXPECT_EQ(a.pd.register_device_memory(all, most, 1, {}).error().code, EINVAL);
  }
  auto region =
      std::optional(must(a.pd.register_device_memory(must(a.context.allocate_device_memory(most)), 0, most, {})));
  EXPECT_EQ(a.context.allocate_device_memory(1).error().code, ENOMEM) << "the region has it still";
  region.reset();
  must(a.context.allocate_device_memory(most));
}

TEST(MemoryRegion, BecomesAnotherUnderTheSameKeys) {
  test::World world;
  world.add();
  Side a(world.device()), b(world.device());
  auto qa = a.make_qp(), qb = b.make_qp();
  connect(a, qa, b, qb);
  const auto write = [&](const void* target) {
    EXPECT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                            .flags = SendFlag::signaled,
                            .sges = std::array{a.mr.sge(0, 8)},
                            .remote_addr = reinterpret_cast<uint64_t>(target),
                            .rkey = b.mr.rkey()}),
              0);
    return test::next(world, a.cq).status;
  };
  std::vector<std::byte> other(4096);
  a.memory[0] = std::byte{0x5a};
  const uint32_t key = b.mr.rkey();
  const AccessFlags read_only = Access::remote_read;
  const AccessFlags unsafe = Access::remote_write;

  must(b.mr.reregister(nullptr, other.data(), other.size(), nullptr));
  EXPECT_EQ(b.mr.rkey(), key);
  EXPECT_EQ(b.mr.address(), other.data());
  EXPECT_EQ(write(other.data() + 100), WcStatus::success);
  EXPECT_EQ(other[100], std::byte{0x5a});

  EXPECT_EQ(b.mr.reregister(nullptr, nullptr, 0, &unsafe).error().code, EINVAL);
  EXPECT_EQ(b.mr.reregister(&a.pd, nullptr, 0, nullptr).error().code, EINVAL) << "another context's domain";
  EXPECT_EQ(write(other.data()), WcStatus::success) << "nothing changed";

  must(b.mr.reregister(nullptr, nullptr, 0, &read_only));
  EXPECT_EQ(write(other.data()), WcStatus::remote_access_error);

  auto qc = a.make_qp(), qd = b.make_qp();
  connect(a, qc, b, qd);
  const auto pd = must(b.context.create_pd());
  must(b.mr.reregister(&pd, b.memory.data(), 64, &Side::kAll));
  EXPECT_EQ(qc.post_send({.opcode = WrOpcode::rdma_write,
                          .flags = SendFlag::signaled,
                          .sges = std::array{a.mr.sge(0, 8)},
                          .remote_addr = reinterpret_cast<uint64_t>(b.memory.data()),
                          .rkey = key}),
            0);
  EXPECT_EQ(test::next(world, a.cq).status, WcStatus::remote_access_error) << "the queue pair's domain is another";
}

// A recorded engine looks keys up in a table of its own.
TEST(MemoryRegion, OfARecordedEngineIsLeftAloneBehindItsDeregistration) {
  std::array<test::Recording, 2> recordings;
  {
    test::World world(test::World::Mode::threaded);
    for (test::Recording& recording : recordings) world.add({.tapes = {recording.tape()}});
    Side a(world.device(0)), b(world.device(1));
    const auto own = static_cast<std::byte>(0x5a);
    std::vector<std::byte> memory(4096);
    for (int round = 0; round < 50; ++round) {
      SCOPED_TRACE(round);
      auto qa = a.make_qp(), qb = b.make_qp();
      connect(a, qa, b, qb);
      auto region = std::optional(must(b.pd.register_memory(memory.data(), memory.size(), Side::kAll)));
      const Sge source = a.mr.sge(0, 4096);
      constexpr int kWrites = 64;
      for (int i = 0; i < kWrites; ++i) {
        ASSERT_EQ(qa.post_send({.opcode = WrOpcode::rdma_write,
                                .flags = SendFlag::signaled,
                                .sges = {&source, 1},
                                .remote_addr = reinterpret_cast<uint64_t>(memory.data()),
                                .rkey = region->rkey()}),
                  0);
      }
      EXPECT_EQ(test::next(world, a.cq).status, WcStatus::success);
      region.reset();
      std::ranges::fill(memory, own);
      for (int i = 1; i < kWrites; ++i) test::next(world, a.cq);
      EXPECT_EQ(std::ranges::count(memory, own), 4096);
    }
    world.stop();
  }
  for (const test::Recording& recording : recordings) {
    const record::Report report = recording.replay();
    EXPECT_EQ(report.divergence, std::nullopt) << report.divergence.value_or("");
    EXPECT_GT(report.frames_in, 0u);
  }
}

}  // namespace
}  // namespace uroce
