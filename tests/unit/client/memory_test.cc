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

TEST(MemoryRegion, RefusesUnsafeAccess) {
  test::World world;
  world.add();
  Side side(world.device());
  EXPECT_EQ(side.pd.register_memory(side.memory.data(), 8, Access::remote_write).error().code, EINVAL);
  EXPECT_EQ(side.pd.register_memory(side.memory.data(), 8, Access::remote_atomic).error().code, EINVAL);
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

}  // namespace
}  // namespace uroce
