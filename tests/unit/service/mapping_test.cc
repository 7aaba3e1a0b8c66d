#include "service/mapping.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/engine_round.h"

namespace uroce::service {
namespace {

constexpr uint64_t kPage = 4096;

message::Fd memory_file(uint64_t bytes) {
  message::Fd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

/// Of segments that are all there.
Result<std::unique_ptr<Mapping>> make_mapping(std::span<const message::Segment> segments,
                                              std::span<const message::Fd> fds, uint64_t address, uint64_t length,
                                              bool writable, const MappingRules& rules = {}) {
  auto builder = MappingBuilder::begin(
      {.address = address, .length = length, .writable = writable, .pieces = segments.size(), .rules = rules});
  if (!builder) return std::unexpected(builder.error());
  if (auto added = builder->add(segments, fds); !added) return std::unexpected(added.error());
  return builder->complete();
}

TEST(Mapping, JoinsSegmentsIntoOneRun) {
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(4 * kPage));
  fds.push_back(memory_file(4 * kPage));
  EXPECT_EQ(pwrite(fds[0].get(), "ab", 2, 3 * kPage - 2), 2);
  EXPECT_EQ(pwrite(fds[1].get(), "cd", 2, kPage), 2);
  const message::Segment segments[] = {{0, kPage, 2 * kPage}, {1, kPage, kPage}};
  auto mapping = make_mapping(segments, fds, 0x7000000123, 2 * kPage, true);
  ASSERT_TRUE(mapping) << mapping.error().text;
  EXPECT_EQ((*mapping)->bytes(), 3 * kPage);
  const std::byte* second = (*mapping)->data() - 0x123 + 2 * kPage;
  EXPECT_EQ(std::memcmp(second - 2, "abcd", 4), 0);
}

TEST(Mapping, FallsOnTheClientsAlignment) {
  constexpr uint64_t kHugePage = uint64_t{2} << 20;
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(kHugePage));
  const uint64_t address = (uint64_t{5} << 30) + 3 * kPage + 8;
  const auto distance = [&](uint64_t bytes) {
    const message::Segment segment{0, 0, bytes};
    auto mapping = make_mapping({&segment, 1}, fds, address, bytes - 8, false);
    EXPECT_TRUE(mapping);
    return mapping ? reinterpret_cast<uint64_t>((*mapping)->data()) - address : 1;
  };
  EXPECT_EQ(distance(kHugePage) % (uint64_t{1} << 30), 0u);
  EXPECT_EQ(distance(kPage) % kPage, 0u) << "too short for a huge page";
}

TEST(Mapping, RefusesInvalidSegments) {
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(2 * kPage));
  const auto code = [&](message::Segment segment, uint64_t address, uint64_t length) {
    auto mapping = make_mapping({&segment, 1}, fds, address, length, true);
    return mapping ? 0 : mapping.error().code;
  };
  EXPECT_EQ(code({0, 0, 2 * kPage}, 0x1000, 2 * kPage), 0);
  EXPECT_EQ(code({1, 0, kPage}, 0, 8), EINVAL) << "no such descriptor";
  EXPECT_EQ(code({0, 0, 0}, 0, 8), EINVAL) << "empty";
  EXPECT_EQ(code({0, 100, kPage}, 0, 8), EINVAL) << "no page's beginning";
  EXPECT_EQ(code({0, 0, kPage - 1}, 0, 8), EINVAL) << "no whole page";
  EXPECT_EQ(code({0, kPage, 2 * kPage}, 0, 8), EINVAL) << "past the end of the file";
  EXPECT_EQ(code({0, 0, kPage}, 0, 0), EINVAL) << "nothing to register";
  EXPECT_EQ(code({0, 0, kPage}, 8, kPage), EINVAL) << "the last bytes are in no segment";
  EXPECT_EQ(code({0, 0, kPage}, 0, UINT64_MAX), EINVAL);
  EXPECT_EQ(code({0, UINT64_MAX - kPage + 1, kPage}, 0, 8), EINVAL);
}

TEST(Mapping, RefusesDescriptorsThatAreNoMemory) {
  std::vector<message::Fd> fds;
  fds.emplace_back(open("/dev/zero", O_RDWR | O_CLOEXEC));
  fds.emplace_back(open("/proc/self/maps", O_RDONLY | O_CLOEXEC));
  for (uint32_t fd = 0; fd < 2; ++fd) {
    const message::Segment segment{fd, 0, kPage};
    auto mapping = make_mapping({&segment, 1}, fds, 0, 8, false);
    ASSERT_FALSE(mapping);
    EXPECT_EQ(mapping.error().code, EOPNOTSUPP);
  }
}

TEST(Mapping, TakesPartsOfHugePages) {
  constexpr uint64_t kHuge = uint64_t{2} << 20;
  std::vector<message::Fd> fds;
  fds.emplace_back(memfd_create("test", MFD_CLOEXEC | MFD_HUGETLB));
  void* client = MAP_FAILED;
  if (fds[0] && ftruncate(fds[0].get(), 2 * kHuge) == 0) {
    client = mmap(nullptr, 2 * kHuge, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fds[0].get(), 0);
  }
  if (client == MAP_FAILED) GTEST_SKIP() << "two free hugepages are needed; config/hugepages.sh reserves some";
  auto* bytes = static_cast<std::byte*>(client);
  const auto address = reinterpret_cast<uint64_t>(client) + kHuge - 2 * kPage + 8;
  const message::Segment segment{0, kHuge - 2 * kPage, 5 * kPage};
  auto mapping = make_mapping({&segment, 1}, fds, address, 4 * kPage, true);
  ASSERT_TRUE(mapping) << mapping.error().text;
  bytes[kHuge - 2 * kPage + 8] = std::byte{1};
  bytes[kHuge] = std::byte{2};
  EXPECT_EQ((*mapping)->data()[0], std::byte{1});
  EXPECT_EQ((*mapping)->data()[2 * kPage - 8], std::byte{2});
  (*mapping)->data()[4 * kPage - 1] = std::byte{3};
  EXPECT_EQ(bytes[kHuge + 2 * kPage + 7], std::byte{3});
  munmap(client, 2 * kHuge);
}

TEST(Mapping, TakesNoMoreThanItNeeds) {
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(uint64_t{1} << 40));
  const message::Segment all{0, 0, uint64_t{1} << 40};
  auto mapping = make_mapping({&all, 1}, fds, 0, 8, true);
  ASSERT_FALSE(mapping);
  EXPECT_EQ(mapping.error().code, EINVAL);
}

TEST(Mapping, OfHugePagesIsWholeOnes) {
  constexpr uint64_t kHuge = uint64_t{2} << 20;
  std::vector<message::Fd> fds;
  fds.emplace_back(memfd_create("test", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB));
  if (!fds[0] || ftruncate(fds[0].get(), 2 * kHuge) != 0) GTEST_SKIP() << "no huge pages";
  const auto make = [&](uint64_t offset, uint64_t length, uint64_t address) {
    const message::Segment segment{0, offset, length};
    return make_mapping({&segment, 1}, fds, address, length, true);
  };
  void* probe = mmap(nullptr, kHuge, PROT_READ, MAP_SHARED, fds[0].get(), 0);
  if (probe == MAP_FAILED) GTEST_SKIP() << "no huge pages";
  munmap(probe, kHuge);
  // The kernel maps whole pages, whatever is asked for: all of them are the mapping's.
  auto page = make(kPage, kPage, 5 * kHuge + kPage);
  ASSERT_TRUE(page) << page.error().text;
  EXPECT_EQ((*page)->bytes(), kHuge);
  auto across = make(kHuge - kPage, 2 * kPage, 6 * kHuge - kPage);
  ASSERT_TRUE(across) << across.error().text;
  EXPECT_EQ((*across)->bytes(), 2 * kHuge);
  const message::Segment twice[] = {{0, 0, kPage}, {0, 0, kPage}};
  EXPECT_EQ(make_mapping(twice, fds, 0, 2 * kPage, true).error().code, EINVAL) << "a gap between";
  EXPECT_EQ(make(0, kPage, kPage).error().code, EINVAL) << "not where huge pages can be";
}

TEST(Mapping, GoesOnWithZeroesWhenTheFileIsCutShort) {
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(2 * kPage));
  const message::Segment segment{0, 0, 2 * kPage};
  auto mapping = *make_mapping({&segment, 1}, fds, 0, 2 * kPage, true);
  auto other = *make_mapping({&segment, 1}, fds, 0, 2 * kPage, true);
  mapping->data()[kPage] = std::byte{1};
  EXPECT_FALSE(mapping->broken());
  ASSERT_EQ(ftruncate(fds[0].get(), kPage), 0);
  mapping->data()[kPage] = std::byte{2};  // without the fault watch this would kill the process
  EXPECT_TRUE(mapping->broken());
  EXPECT_FALSE(other->broken());
  EXPECT_EQ(mapping->data()[0], std::byte{0});
}

std::unique_ptr<Mapping> whole_of(const std::vector<message::Fd>& fds, uint64_t bytes) {
  const message::Segment segment{0, 0, bytes};
  auto mapping = make_mapping({&segment, 1}, fds, 0, bytes, true);
  EXPECT_TRUE(mapping) << mapping.error().text;
  return mapping ? std::move(*mapping) : nullptr;
}

TEST(Mapping, KeepsWhatIsFarFromWhereTheFileWasCutShort) {
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(kBytes));
  const auto mapping = whole_of(fds, kBytes);
  ASSERT_NE(mapping, nullptr);
  mapping->data()[0] = std::byte{7};
  ASSERT_EQ(ftruncate(fds[0].get(), kBytes / 2), 0);
  mapping->data()[kBytes - 1] = std::byte{1};
  EXPECT_TRUE(mapping->broken());
  // All of it would take a while to replace, and an engine waits.
  EXPECT_EQ(mapping->data()[0], std::byte{7});
  EXPECT_EQ(mapping->data()[kBytes / 2], std::byte{0});
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they map memory of their own

/// Takes every mapping that the kernel allows this process.
class AllMappings {
 public:
  AllMappings() {
    constexpr uint64_t kMost = 1 << 21;
    bytes_ = 2 * kMost * kPage;
    base_ =
        static_cast<std::byte*>(mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    EXPECT_NE(base_, MAP_FAILED);
    for (uint64_t i = 1; i < kMost && mprotect(base_ + 2 * i * kPage, kPage, PROT_READ) == 0; ++i) {
    }
    // Each is one more that the kernel does not join to its neighbor.
    for (int i = 0; i < 64; ++i) {
      void* page = mmap(nullptr, kPage, i % 2 == 0 ? PROT_READ : PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      if (page == MAP_FAILED) break;
      more_.push_back(page);
    }
  }
  ~AllMappings() {
    munmap(base_, bytes_);
    for (void* page : more_) munmap(page, kPage);
  }
  bool all() const { return more_.size() < 64; }

 private:
  std::byte* base_;
  uint64_t bytes_;
  std::vector<void*> more_;
};

TEST(Mapping, GoesOnWhenTheKernelAllowsNoMoreMappings) {
  constexpr std::size_t kRounds = 100;
  // The first is larger than what one repair replaces.
  const auto bytes_of = [](std::size_t round) { return round == 0 ? uint64_t{32} << 20 : 8 * kPage; };
  std::vector<std::vector<message::Fd>> files(kRounds);
  std::vector<std::unique_ptr<Mapping>> mappings;
  for (std::size_t i = 0; i < kRounds; ++i) {
    files[i].push_back(memory_file(bytes_of(i)));
    mappings.push_back(whole_of(files[i], bytes_of(i)));
    ASSERT_NE(mappings.back(), nullptr);
  }
  const AllMappings full;
  ASSERT_TRUE(full.all());
  for (std::size_t i = 0; i < kRounds; ++i) {
    ASSERT_EQ(ftruncate(files[i][0].get(), 0), 0);
    mappings[i]->data()[bytes_of(i) - 1] = std::byte{1};  // without a repair this kills the process
    ASSERT_TRUE(mappings[i]->broken());
    mappings[i]->data()[0] = std::byte{1};
  }
}

#endif

TEST(Mapping, IsRepairedWhileOthersComeAndGo) {
  constexpr int kThreads = 4, kRounds = 100;
  constexpr uint64_t kBytes = 8 * kPage;
  std::vector<message::Fd> common;
  common.push_back(memory_file(kBytes));
  const auto mapping = whole_of(common, kBytes);
  ASSERT_NE(mapping, nullptr);
  ASSERT_EQ(ftruncate(common[0].get(), 0), 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      mapping->data()[static_cast<uint64_t>(t) * kPage] = std::byte{1};
      for (int i = 0; i < kRounds; ++i) {
        std::vector<message::Fd> own;
        own.push_back(memory_file(kBytes));
        const auto mine = whole_of(own, kBytes);
        ASSERT_NE(mine, nullptr);
        ASSERT_EQ(ftruncate(own[0].get(), 0), 0);
        mine->data()[kBytes - 1] = std::byte{1};
        ASSERT_TRUE(mine->broken());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(mapping->broken());
}

uint64_t allocated(const message::Fd& fd) {
  struct stat file{};
  EXPECT_EQ(fstat(fd.get(), &file), 0);
  return static_cast<uint64_t>(file.st_blocks) * 512;
}

TEST(Mapping, LeavesHolesAsTheyAre) {
  constexpr uint64_t kBytes = uint64_t{64} << 20;
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(kBytes));
  for (const off_t at : {off_t{0}, off_t{20} << 20, (off_t{64} << 20) - 1})
    EXPECT_EQ(pwrite(fds[0].get(), "x", 1, at), 1);
  ASSERT_EQ(lseek(fds[0].get(), 12345, SEEK_SET), 12345);
  const uint64_t before = allocated(fds[0]);
  const auto mapping = whole_of(fds, kBytes);
  ASSERT_NE(mapping, nullptr);
  EXPECT_EQ(allocated(fds[0]), before) << "the daemon pays for what it fills";
  EXPECT_EQ(lseek(fds[0].get(), 0, SEEK_CUR), 12345) << "the client shares the position";
  std::vector<unsigned char> present(kBytes / kPage);
  ASSERT_EQ(mincore(mapping->data(), kBytes, present.data()), 0);
  EXPECT_EQ(present[0] & present[(20 << 20) / kPage] & present.back() & 1, 1);
  mapping->data()[kBytes / 2] = std::byte{1};
  EXPECT_FALSE(mapping->broken());
}

void punch(const message::Fd& fd, uint64_t bytes) {
  ASSERT_EQ(fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)), 0);
}

TEST(Mapping, OfAStrangerBreaksAtAMissingPage) {
  if (!FaultWatch::can_guard()) GTEST_SKIP() << "userfaultfd is not permitted";
  constexpr uint64_t kBytes = 4 * kPage;
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(kBytes));
  ASSERT_EQ(fallocate(fds[0].get(), 0, 0, kBytes), 0);
  const auto waits = std::make_shared<EngineWaits>();
  const message::Segment segment{0, 0, kBytes};
  const auto mapping = *make_mapping({&segment, 1}, fds, 0, kBytes, true, {.guard = true, .waits = waits});
  mapping->data()[kPage] = std::byte{1};
  EXPECT_FALSE(mapping->broken());
  punch(fds[0], kBytes);

  engine_clock = [] { return Nanos(7'500'000); };
  begin_engine_round(Nanos(500'000));
  mapping->data()[kPage] = std::byte{2};
  end_engine_round();
  engine_clock = nullptr;
  EXPECT_TRUE(mapping->broken());
  EXPECT_EQ(waits->nanoseconds.load(), 7'000'000);
  EXPECT_EQ(waits->file.load(), kBytes);
  EXPECT_EQ(allocated(fds[0]), 0) << "the daemon fills no hole";
}

TEST(Mapping, CanBeTakenFromTheClient) {
  constexpr uint64_t kBytes = uint64_t{40} << 20;  // more than one part
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(kBytes));
  const auto mapping = whole_of(fds, kBytes);
  ASSERT_NE(mapping, nullptr);
  EXPECT_TRUE(mapping->punchable());
  mapping->data()[kBytes - 1] = mapping->data()[0] = std::byte{7};
  mapping->break_all();
  EXPECT_TRUE(mapping->broken());
  EXPECT_EQ(mapping->data()[0] | mapping->data()[kBytes - 1], std::byte{0});
}

TEST(Mapping, RefusesMemoryThatCanBePunchedWhenToldTo) {
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(kPage));
  const message::Segment segment{0, 0, kPage};
  const auto refused = make_mapping({&segment, 1}, fds, 0, kPage, false, {.steady = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EACCES);
  EXPECT_NE(refused.error().text.find("limits.punch_penalty"), std::string::npos) << refused.error().text;

  fds[0] = message::Fd(memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(fds[0].get(), kPage), 0);
  ASSERT_EQ(fcntl(fds[0].get(), F_ADD_SEALS, F_SEAL_WRITE), 0);
  EXPECT_FALSE(make_mapping({&segment, 1}, fds, 0, kPage, false, {.guard = true, .steady = true}));
  ASSERT_EQ(fcntl(fds[0].get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  EXPECT_TRUE(make_mapping({&segment, 1}, fds, 0, kPage, false, {.guard = true, .steady = true}));
}

// The attack: the file loses its pages without a punch, and each access to it then takes memory of the daemon's.
TEST(Mapping, OfAStrangerIsSealedAgainstShrinkingAndGrowing) {
  if (!FaultWatch::can_guard()) GTEST_SKIP() << "userfaultfd is not permitted";
  constexpr uint64_t kBytes = 16 * kPage;
  const std::vector<std::byte> filled(kBytes, std::byte{1});
  const message::Segment segment{0, 0, kBytes};
  for (const int seal : {F_SEAL_WRITE, F_SEAL_FUTURE_WRITE}) {
    std::vector<message::Fd> fds;
    fds.emplace_back(memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    ASSERT_EQ(pwrite(fds[0].get(), filled.data(), kBytes, 0), static_cast<ssize_t>(kBytes));
    ASSERT_EQ(fcntl(fds[0].get(), F_ADD_SEALS, seal), 0);
    const auto mapping = make_mapping({&segment, 1}, fds, 0, kBytes, false, {.guard = true});
    if (mapping) {
      ASSERT_EQ(ftruncate(fds[0].get(), 0), 0);
      ASSERT_EQ(ftruncate(fds[0].get(), kBytes), 0);
      for (uint64_t at = 0; at < kBytes; at += kPage) EXPECT_EQ((*mapping)->data()[at], std::byte{0});
      EXPECT_EQ(allocated(fds[0]), 0) << "the daemon fills no hole";
    } else {
      EXPECT_EQ(mapping.error().code, EACCES) << mapping.error().text;
      EXPECT_NE(mapping.error().text.find("F_SEAL_SHRINK"), std::string::npos) << mapping.error().text;
    }
  }
}

TEST(Mapping, NeedsAnOpenFile) {
  std::vector<message::Fd> fds;
  const message::Fd file = memory_file(kPage);
  fds.emplace_back(open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_PATH | O_CLOEXEC));
  const message::Segment segment{0, 0, kPage};
  const auto refused = make_mapping({&segment, 1}, fds, 0, kPage, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EBADF);
  EXPECT_NE(refused.error().text.find("O_PATH"), std::string::npos) << refused.error().text;
}

TEST(Mapping, IsWritableOnlyWhereTheDescriptorIs) {
  std::vector<message::Fd> fds;
  const message::Fd file = memory_file(kPage);
  fds.emplace_back(open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const message::Segment segment{0, 0, kPage};
  const auto refused = make_mapping({&segment, 1}, fds, 0, kPage, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EACCES);
}

TEST(Mapping, OfAStrangerNeedsADescriptorThatMayWrite) {
  if (!FaultWatch::can_guard()) GTEST_SKIP() << "userfaultfd is not permitted";
  std::vector<message::Fd> fds;
  const message::Fd file = memory_file(kPage);
  ASSERT_EQ(fchmod(file.get(), 0666), 0);
  fds.emplace_back(open(("/proc/self/fd/" + std::to_string(file.get())).c_str(), O_RDONLY | O_CLOEXEC));
  const message::Segment segment{0, 0, kPage};
  EXPECT_TRUE(make_mapping({&segment, 1}, fds, 0, kPage, false));
  const auto refused = make_mapping({&segment, 1}, fds, 0, kPage, false, {.guard = true});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EACCES);
}

TEST(Mapping, RefusesMoreHolesThanTheMachineCanSpare) {
  const uint64_t share = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) / 10 * kPage;
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(share));
  auto first = whole_of(fds, share);
  ASSERT_NE(first, nullptr);
  const message::Segment segment{0, 0, share};
  const auto second = make_mapping({&segment, 1}, fds, 0, share, true);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ENOMEM);
  EXPECT_NE(second.error().text.find("MADV_POPULATE_WRITE"), std::string::npos) << second.error().text;
  first.reset();
  EXPECT_NE(whole_of(fds, share), nullptr);
}

TEST(Mapping, TakesFilesOfDisksOnlyWhenAllowed) {
  std::string path = testing::TempDir() + "/uroce-mapping-XXXXXX";
  std::vector<message::Fd> fds;
  fds.emplace_back(mkostemp(path.data(), O_CLOEXEC));
  ASSERT_TRUE(fds[0]) << path;
  unlink(path.c_str());
  struct statfs system{};
  if (fstatfs(fds[0].get(), &system) == 0 && system.f_type == TMPFS_MAGIC) GTEST_SKIP() << path << " is in memory";
  ASSERT_EQ(ftruncate(fds[0].get(), kPage), 0);
  const message::Segment segment{0, 0, kPage};
  const auto refused = make_mapping({&segment, 1}, fds, 0, kPage, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EOPNOTSUPP);
  EXPECT_NE(refused.error().text.find("limits.file_memory"), std::string::npos) << refused.error().text;
  const auto allowed = make_mapping({&segment, 1}, fds, 0, kPage, true, {.files = {.disks = true}});
  EXPECT_TRUE(allowed) << allowed.error().text;
}

TEST(MachineBudget, KeepsMappingsForTheDaemon) {
  auto some = take_mappings(1000);
  ASSERT_TRUE(some) << some.error().text;
  const auto refused = take_mappings(uint64_t{1} << 40);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOMEM);
  EXPECT_NE(refused.error().text.find("vm.max_map_count"), std::string::npos) << refused.error().text;
}

}  // namespace
}  // namespace uroce::service
