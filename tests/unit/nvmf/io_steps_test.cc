// The operations of the kernel that a command takes, whatever the file system can do.
#include "nvmf/io_steps.h"

#include <fcntl.h>
#include <linux/falloc.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <vector>

#include <gtest/gtest.h>

#include "nvmf/sizes.h"

namespace uroce::nvmf {
namespace {

constexpr int kFile = 7;

io_uring_sqe next_of(const Io& io) {
  io_uring_sqe sqe{};
  prepare_step(&sqe, io);
  return sqe;
}

struct Fallocate {
  int mode;
  int result;
};

/// Each fallocate(2) must come with this mode, and then has this result. Returns what comes after them.
std::optional<int> after(Io& io, const std::vector<Fallocate>& tried) {
  io.fd = kFile;
  begin_steps(io);
  std::optional<int> end;
  for (const Fallocate& one : tried) {
    EXPECT_FALSE(end.has_value());
    const io_uring_sqe sqe = next_of(io);
    EXPECT_EQ(sqe.opcode, IORING_OP_FALLOCATE);
    EXPECT_EQ(sqe.len, static_cast<uint32_t>(one.mode | FALLOC_FL_KEEP_SIZE));
    EXPECT_EQ(sqe.fd, kFile);
    EXPECT_EQ(sqe.off, io.offset);
    EXPECT_EQ(sqe.addr, io.length);
    end = end_step(io, one.result);
  }
  return end;
}

TEST(IoSteps, ZeroesThatMustBeDurableAreSynced) {
  for (const auto& tried : {std::vector<Fallocate>{{FALLOC_FL_ZERO_RANGE, 0}},
                            {{FALLOC_FL_ZERO_RANGE, -EOPNOTSUPP}, {FALLOC_FL_PUNCH_HOLE, 0}}}) {
    Io io{.op = Io::Op::write_zeroes, .offset = 4096, .length = 1 << 20};
    EXPECT_EQ(after(io, tried), 0);
    io.force_unit_access = true;
    ASSERT_FALSE(after(io, tried).has_value());
    const io_uring_sqe sync = next_of(io);
    EXPECT_EQ(sync.opcode, IORING_OP_FSYNC);
    EXPECT_EQ(sync.fd, kFile);
    EXPECT_FALSE(end_step(io, -EINTR).has_value()) << "again";
    EXPECT_EQ(end_step(io, -EIO), EIO);
    EXPECT_EQ(end_step(io, 0), 0);
  }
}

// NFS before 4.2 and others have neither. Write Zeroes must not fail there: hosts send it because Identify offers it.
TEST(IoSteps, ZeroesAreWrittenWhereNothingElseIsPossible) {
  const std::vector<Fallocate> neither{{FALLOC_FL_ZERO_RANGE, -EOPNOTSUPP}, {FALLOC_FL_PUNCH_HOLE, -EOPNOTSUPP}};
  Io io{.op = Io::Op::write_zeroes, .offset = 8192, .length = kTransferBytes + 4096};
  for (const bool durable : {false, true}) {
    io.force_unit_access = durable;
    EXPECT_FALSE(after(io, neither).has_value());
    io_uring_sqe write = next_of(io);
    EXPECT_EQ(write.opcode, IORING_OP_WRITE);
    EXPECT_EQ(write.off, 8192u);
    EXPECT_EQ(write.len, kTransferBytes);
    EXPECT_EQ(write.addr % 4096, 0u) << "for O_DIRECT";
    const std::span data(reinterpret_cast<const std::byte*>(write.addr), write.len);
    EXPECT_TRUE(std::ranges::all_of(data, [](std::byte b) { return b == std::byte{0}; }));
    EXPECT_FALSE(end_step(io, kTransferBytes).has_value());
    write = next_of(io);
    EXPECT_EQ(write.off, 8192 + kTransferBytes);
    EXPECT_EQ(write.len, 4096u);
    const auto end = end_step(io, 4096);
    if (!durable) {
      EXPECT_EQ(end, 0);
      continue;
    }
    ASSERT_FALSE(end.has_value());
    EXPECT_EQ(next_of(io).opcode, IORING_OP_FSYNC);
    EXPECT_EQ(end_step(io, 0), 0);
  }
  EXPECT_FALSE(after(io, neither).has_value());
  EXPECT_EQ(end_step(io, -ENOSPC), ENOSPC);
}

TEST(IoSteps, ZeroesThatFailAreNotSynced) {
  Io io{.op = Io::Op::write_zeroes, .force_unit_access = true, .length = 4096};
  EXPECT_EQ(after(io, {{FALLOC_FL_ZERO_RANGE, -ENOSPC}}), ENOSPC);
}

TEST(IoSteps, WritesAreDurableByThemselves) {
  std::byte data[16];
  Io io{.op = Io::Op::write, .force_unit_access = true, .length = sizeof data, .data = data, .fd = kFile};
  begin_steps(io);
  EXPECT_EQ(next_of(io).rw_flags, RWF_DSYNC);
  EXPECT_FALSE(end_step(io, 10).has_value());
  EXPECT_EQ(next_of(io).len, 6u);
  EXPECT_EQ(end_step(io, 6), 0);
}

TEST(IoSteps, DeallocateIsAHint) {
  Io io{.op = Io::Op::deallocate, .offset = 4096, .length = 4096};
  EXPECT_EQ(after(io, {{FALLOC_FL_PUNCH_HOLE, -EOPNOTSUPP}}), 0);
  EXPECT_EQ(after(io, {{FALLOC_FL_PUNCH_HOLE, -EIO}}), EIO);
}

}  // namespace
}  // namespace uroce::nvmf
