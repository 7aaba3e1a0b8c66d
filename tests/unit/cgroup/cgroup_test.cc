#include "cgroup/cgroup.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace uroce::cgroup {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;
const std::string kSecond = "30 23 0:27 / /cg rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";

/// A folder with the files of control groups.
class Cgroup : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "uroce-cgroup-XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    std::filesystem::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << '\n';
  }
  void write(const std::string& path, uint64_t number) const { write(path, std::to_string(number)); }
  Room memory(const std::string& mounts, const std::string& membership) const {
    return Groups(root_.string(), mounts).memory(membership);
  }
  std::string at(const std::string& path) const { return (root_ / path).string(); }

  std::filesystem::path root_;
};

TEST_F(Cgroup, WithoutGroupsNothingLimits) {
  const Room room = memory("22 1 0:21 / /proc rw - proc proc rw\n", "0::/\n");
  EXPECT_EQ(room.smallest, UINT64_MAX);
  EXPECT_EQ(room.left, UINT64_MAX);
  EXPECT_TRUE(room.file.empty());
  EXPECT_EQ(memory("", "").left, UINT64_MAX);
  EXPECT_EQ(memory(kSecond, "0::/a/b\n").left, UINT64_MAX) << "no such files";
}

TEST_F(Cgroup, TheOwnGroupOfVersion2) {
  write("cg/a/memory.max", 300 * kMiB);
  write("cg/a/memory.high", "max");
  write("cg/a/memory.current", 100 * kMiB);
  write("cg/a/memory.stat", "anon 5\nactive_file 8388608\ninactive_file 41943040\nslab 7");
  const Room room = memory(kSecond, "0::/a\n");
  EXPECT_EQ(room.smallest, 300 * kMiB);
  EXPECT_EQ(room.left, (200 + 40 + 4) * kMiB) << "unused pages of files, and half of the others, come back";
  EXPECT_EQ(room.limit, 300 * kMiB);
  EXPECT_EQ(room.file, at("cg/a/memory.max"));
}

TEST_F(Cgroup, AllGroupsAroundItCount) {
  write("cg/a/b/c/memory.max", "max");
  write("cg/a/b/c/memory.current", 10 * kMiB);
  write("cg/a/b/memory.max", 100 * kMiB);
  write("cg/a/b/memory.current", 20 * kMiB);
  write("cg/a/memory.max", 500 * kMiB);
  write("cg/a/memory.current", 470 * kMiB);  // of others
  const Room room = memory(kSecond, "0::/a/b/c\n");
  EXPECT_EQ(room.smallest, 100 * kMiB);
  EXPECT_EQ(room.left, 30 * kMiB);
  EXPECT_EQ(room.limit, 500 * kMiB);
  EXPECT_EQ(room.file, at("cg/a/memory.max"));
  write("cg/a/memory.current", 600 * kMiB);
  EXPECT_EQ(memory(kSecond, "0::/a/b/c\n").left, 0u) << "a limit was lowered below the use";
}

TEST_F(Cgroup, BeyondMemoryHighAllWait) {
  write("cg/a/memory.max", 300 * kMiB);
  write("cg/a/memory.high", 200 * kMiB);
  write("cg/a/memory.current", 50 * kMiB);
  const Room room = memory(kSecond, "0::/a\n");
  EXPECT_EQ(room.left, 150 * kMiB);
  EXPECT_EQ(room.file, at("cg/a/memory.high"));
}

TEST_F(Cgroup, Version1BesideAnEmptyVersion2) {
  const std::string mounts =
      "31 23 0:28 / /cg rw - tmpfs tmpfs rw,mode=755\n"
      "33 31 0:31 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
      "35 31 0:32 / /cg/memory rw shared:9 - cgroup cgroup rw,hugetlb,memory\n"
      "41 31 0:38 / /cg/unified rw - cgroup2 cgroup2 rw\n";
  write("cg/memory/memory.limit_in_bytes", "9223372036854771712");
  write("cg/memory/memory.usage_in_bytes", 900 * kMiB);
  write("cg/memory/x/memory.limit_in_bytes", 300 * kMiB);
  write("cg/memory/x/memory.usage_in_bytes", 100 * kMiB);
  write("cg/memory/x/memory.stat", "inactive_file 5\ntotal_active_file 0\ntotal_inactive_file 20971520");
  write("cg/memory/x/hugetlb.2MB.limit_in_bytes", 8 * kMiB);
  write("cg/memory/x/hugetlb.2MB.usage_in_bytes", 6 * kMiB);
  const std::string membership = "9:name=systemd:/\n4:hugetlb,memory:/x\n3:cpuset:/y\n0::/\n";
  const Room room = memory(mounts, membership);
  EXPECT_EQ(room.smallest, 300 * kMiB);
  EXPECT_EQ(room.left, 220 * kMiB);
  EXPECT_EQ(room.file, at("cg/memory/x/memory.limit_in_bytes"));
  EXPECT_EQ(Groups(root_.string(), mounts).huge_pages(membership, 2 * kMiB).left, 2 * kMiB);
  EXPECT_EQ(Groups(root_.string(), mounts).huge_pages(membership, 1024 * kMiB).left, UINT64_MAX);
}

TEST_F(Cgroup, AContainerSeesItsOwnGroupAsTheRoot) {
  write("cg/memory.max", 64 * kMiB);
  write("cg/memory.current", 4 * kMiB);
  EXPECT_EQ(memory(kSecond, "0::/\n").left, 60 * kMiB);
  EXPECT_EQ(memory(kSecond, "0::/../other\n").left, 60 * kMiB) << "a group outside of it is not to be seen";
}

TEST_F(Cgroup, AContainerSeesItsOwnGroupUnderTheNameOfTheHost) {
  const std::string mounts = R"(35 31 0:32 /docker/f\04000 /cg/my\040memory ro - cgroup cgroup rw,memory)";
  write("cg/my memory/memory.limit_in_bytes", 64 * kMiB);
  write("cg/my memory/memory.usage_in_bytes", 4 * kMiB);
  write("cg/my memory/in/memory.limit_in_bytes", 32 * kMiB);
  write("cg/my memory/in/memory.usage_in_bytes", 2 * kMiB);
  EXPECT_EQ(memory(mounts, "4:memory:/docker/f 00\n").left, 60 * kMiB);
  EXPECT_EQ(memory(mounts, "4:memory:/docker/f 00/in\n").left, 30 * kMiB);
}

TEST_F(Cgroup, TheMountThatShowsTheMostIsTaken) {
  const std::string part = "36 31 0:32 /a/b /part rw - cgroup2 cgroup2 rw\n";
  write("cg/a/memory.max", 10 * kMiB);
  write("cg/a/memory.current", 1 * kMiB);
  for (const std::string& mounts : {part + kSecond, kSecond + part}) {
    EXPECT_EQ(memory(mounts, "0::/a/b\n").left, 9 * kMiB);
  }
}

TEST_F(Cgroup, HugePagesHaveLimitsOfUseAndOfReservations) {
  write("cg/a/hugetlb.2MB.max", 64 * kMiB);
  write("cg/a/hugetlb.2MB.current", 2 * kMiB);
  write("cg/a/hugetlb.2MB.rsvd.max", 32 * kMiB);
  write("cg/a/hugetlb.2MB.rsvd.current", 4 * kMiB);
  write("cg/a/hugetlb.1GB.max", 0);
  const Groups groups(root_.string(), kSecond);
  const Room room = groups.huge_pages("0::/a\n", 2 * kMiB);
  EXPECT_EQ(room.left, 28 * kMiB);
  EXPECT_EQ(room.file, at("cg/a/hugetlb.2MB.rsvd.max"));
  EXPECT_EQ(groups.huge_pages("0::/a\n", 1024 * kMiB).left, 0u);
  EXPECT_FALSE(groups.huge_pages_are_memory());
  EXPECT_TRUE(Groups("", "30 23 0:27 / /cg rw - cgroup2 none rw,memory_hugetlb_accounting\n").huge_pages_are_memory());
}

TEST(CgroupOfThisProcess, IsReadWithoutAFault) {
  const Groups groups;
  const Room room = groups.memory();
  EXPECT_LE(room.left, room.limit);
  EXPECT_LE(room.smallest, room.limit);
}

}  // namespace
}  // namespace uroce::cgroup
