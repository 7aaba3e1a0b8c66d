#include "sharing/sharing.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "shared_view.h"
#include "sharing/mappings.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kPage = 4096;

auto share(void* address, std::size_t length, bool writable = true) {
  return Sharing::of_this_process().share(address, length, writable);
}

uint8_t* map(std::size_t length, int flags = MAP_PRIVATE | MAP_ANONYMOUS, int fd = -1,
             int prot = PROT_READ | PROT_WRITE) {
  void* at = ::mmap(nullptr, length, prot, flags, fd, 0);
  EXPECT_NE(at, MAP_FAILED) << std::strerror(errno);
  return static_cast<uint8_t*>(at);
}

void fill(uint8_t* at, std::size_t length, uint32_t seed) {
  std::minstd_rand random(seed);
  for (std::size_t i = 0; i < length; ++i) at[i] = static_cast<uint8_t>(random() >> 8);
}

void expect_filled(const uint8_t* at, std::size_t length, uint32_t seed) {
  std::minstd_rand random(seed);
  for (std::size_t i = 0; i < length; ++i) ASSERT_EQ(at[i], static_cast<uint8_t>(random() >> 8)) << "at byte " << i;
}

/// Both views have the same bytes, and each sees the other's stores.
void expect_shared(uint8_t* at, std::size_t length, const std::vector<SharedSegment>& segments) {
  const SharedView view(segments, at);
  for (std::size_t i = 0; i < length; ++i) ASSERT_EQ(at[i], view[i]) << "at byte " << i;
  for (std::size_t i = 0; i < length; i += 1021) {
    volatile uint8_t& own = at[i];
    own = static_cast<uint8_t>(own + 1);
    ASSERT_EQ(view[i], own) << "at byte " << i;
    view[i] = static_cast<uint8_t>(view[i] + 1);
    ASSERT_EQ(view[i], own) << "at byte " << i;
  }
}

void fill_share_and_expect(uint8_t* at, std::size_t length, uint32_t seed) {
  fill(at, length, seed);
  const auto segments = share(at, length);
  ASSERT_TRUE(segments) << segments.error().text;
  expect_filled(at, length, seed);
  expect_shared(at, length, *segments);
}

/// A file with a name, open.
struct TempFile {
  explicit TempFile(const char* folder, std::size_t length) : path(std::string(folder) + "/uroce-sharing-XXXXXX") {
    fd = ::mkostemp(path.data(), O_CLOEXEC);
    EXPECT_GE(fd, 0) << std::strerror(errno);
    EXPECT_EQ(::ftruncate(fd, static_cast<off_t>(length)), 0);
  }
  ~TempFile() {
    ::close(fd);
    ::unlink(path.c_str());
  }
  std::string path;
  int fd;
};

uint8_t initialised[5 * kPage] = {1, 2, 3};
uint8_t zeroed[5 * kPage];

TEST(Sharing, Mmap) { fill_share_and_expect(map(40 * kPage), 40 * kPage, 1); }

TEST(Sharing, RangeThatStartsAndEndsWithinPages) { fill_share_and_expect(map(9 * kPage) + 100, 7 * kPage + 5, 2); }

TEST(Sharing, SmallObjectsOfTheHeap) {
  for (const std::size_t length : {1, 24, 700, 5000, 70000}) {
    auto* at = static_cast<uint8_t*>(std::malloc(length));
    fill_share_and_expect(at, length, 3);
    std::free(at);
  }
}

TEST(Sharing, InitialisedAndZeroedData) {
  EXPECT_EQ(initialised[1], 2);
  fill_share_and_expect(initialised, sizeof(initialised), 4);
  fill_share_and_expect(zeroed, sizeof(zeroed), 5);
}

TEST(Sharing, OwnStack) {
  uint8_t on_stack[3 * kPage];
  fill_share_and_expect(on_stack, sizeof(on_stack), 6);
}

TEST(Sharing, LargeAndTransparentHugePages) {
  constexpr std::size_t kLength = std::size_t{10} << 20;
  uint8_t* at = map(kLength);
  ::madvise(at, kLength, MADV_HUGEPAGE);
  fill_share_and_expect(at + 12345, kLength - 54321, 7);
  ::munmap(at, kLength);
}

TEST(Sharing, PagesNeverTouched) {
  uint8_t* at = map(64 * kPage);
  const auto segments = share(at, 64 * kPage);
  ASSERT_TRUE(segments) << segments.error().text;
  ASSERT_EQ(segments->size(), 1U);
  for (std::size_t i = 0; i < 64 * kPage; ++i) ASSERT_EQ(at[i], 0);
  expect_shared(at, 64 * kPage, *segments);
}

TEST(Sharing, AskedAgainIsNotMovedAgain) {
  uint8_t* at = map(8 * kPage);
  const auto first = share(at, 8 * kPage), again = share(at, 8 * kPage);
  ASSERT_TRUE(first && again);
  ASSERT_EQ(again->size(), 1U);
  EXPECT_EQ(again->front().fd, first->front().fd);
  EXPECT_EQ(again->front().offset, first->front().offset);
}

TEST(Sharing, OverlappingRangesShareMovedPages) {
  uint8_t* at = map(12 * kPage);
  fill(at, 12 * kPage, 8);
  const auto low = share(at, 8 * kPage), high = share(at + 4 * kPage, 8 * kPage), all = share(at, 12 * kPage);
  ASSERT_TRUE(low && high && all);
  expect_filled(at, 12 * kPage, 8);
  const SharedView low_view(*low, at), high_view(*high, at + 4 * kPage);
  low_view[6 * kPage] = 77;
  EXPECT_EQ(high_view[2 * kPage], 77);
  EXPECT_EQ(at[6 * kPage], 77);
  expect_shared(at, 12 * kPage, *all);
}

TEST(Sharing, FreedAndMappedAgain) {
  uint8_t* at = map(8 * kPage);
  const auto before = share(at, 8 * kPage);
  ASSERT_TRUE(before);
  const SharedSegment old = before->front();
  ASSERT_EQ(::mmap(at, 8 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0), at);
  fill(at, 8 * kPage, 9);
  const auto after = share(at, 8 * kPage);
  ASSERT_TRUE(after) << after.error().text;
  EXPECT_TRUE(after->front().fd != old.fd || after->front().offset != old.offset);
  expect_filled(at, 8 * kPage, 9);
  expect_shared(at, 8 * kPage, *after);
}

TEST(Sharing, UnmappedMemoryIsFreed) {
  uint8_t* keep = map(kPage);
  const auto kept = share(keep, kPage);
  ASSERT_TRUE(kept);
  const auto blocks = [&] {
    struct stat status{};
    ::fstat(kept->front().fd, &status);
    return status.st_blocks;
  };
  const auto before = blocks();
  for (int i = 0; i < 20; ++i) {
    uint8_t* at = map(64 * kPage);
    ASSERT_TRUE(share(at, 64 * kPage));
    ::munmap(at + kPage, 62 * kPage);
    ::munmap(at, kPage);
    ::munmap(at + 63 * kPage, kPage);
    Sharing::of_this_process().done_with(at, 64 * kPage);
  }
  for (int i = 0; i < 1000; ++i) {  // beside many mappings the last few megabytes are found a little later
    uint8_t* at = map(kPage);
    ASSERT_TRUE(share(at, kPage));
    Sharing::of_this_process().done_with(at, kPage);
    ::munmap(at, kPage);
  }
  ASSERT_TRUE(share(keep, kPage));
  // There are less where the C library gave back a shared part of the heap or a stack meanwhile.
  constexpr blkcnt_t kFreedTogether = 256 * 1024 / 512;
  EXPECT_LE(blocks(), before + kFreedTogether);
}

TEST(Sharing, MovedPagesMayMoveAndBeProtectedAsBefore) {
  uint8_t* at = map(8 * kPage);
  fill(at, 8 * kPage, 10);
  ASSERT_TRUE(share(at, 8 * kPage));
  void* elsewhere = ::mremap(at, 8 * kPage, 8 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, map(8 * kPage));
  ASSERT_NE(elsewhere, MAP_FAILED);
  auto* there = static_cast<uint8_t*>(elsewhere);
  ASSERT_EQ(::mprotect(there, kPage, PROT_READ), 0);
  expect_filled(there, 8 * kPage, 10);
  const auto segments = share(there, 8 * kPage, false);
  ASSERT_TRUE(segments) << segments.error().text;
  EXPECT_EQ(segments->size(), 1U);
  EXPECT_EQ(share(there, 8 * kPage).error().code, EFAULT);
}

TEST(Sharing, ReadOnlyMemoryStaysSo) {
  uint8_t* at = map(4 * kPage);
  fill(at, 4 * kPage, 11);
  ASSERT_EQ(::mprotect(at, 4 * kPage, PROT_READ), 0);
  const auto refused = share(at, 4 * kPage, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EFAULT);
  const auto segments = share(at, 4 * kPage, false);
  ASSERT_TRUE(segments) << segments.error().text;
  expect_filled(at, 4 * kPage, 11);
  const int pipe_like = ::open("/dev/zero", O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(::read(pipe_like, at, 1), -1);  // the kernel may not store there either
  EXPECT_EQ(errno, EFAULT);
  ::close(pipe_like);
  ASSERT_EQ(::mprotect(at, 4 * kPage, PROT_READ | PROT_WRITE), 0);
  expect_shared(at, 4 * kPage, *segments);
}

TEST(Sharing, ConstantsOfTheProgram) {
  static constexpr char kText[] = "in the program's own file";
  const auto segments = share(const_cast<char*>(kText), sizeof(kText), false);
  ASSERT_TRUE(segments) << segments.error().text;
  const SharedView view(*segments, kText, false);
  for (std::size_t i = 0; i < sizeof(kText); ++i) EXPECT_EQ(view[i], static_cast<uint8_t>(kText[i]));
}

TEST(Sharing, HoleIsNamed) {
  uint8_t* at = map(4 * kPage);
  ::munmap(at + 2 * kPage, kPage);
  const auto segments = share(at, 4 * kPage);
  ASSERT_FALSE(segments);
  EXPECT_EQ(segments.error().code, EFAULT);
  char address[32];
  std::snprintf(address, sizeof(address), "%#lx", reinterpret_cast<unsigned long>(at + 2 * kPage));
  EXPECT_NE(segments.error().text.find(address), std::string::npos) << segments.error().text;
  EXPECT_EQ(share(at, SIZE_MAX).error().code, EFAULT);
  EXPECT_EQ(share(reinterpret_cast<void*>(kPage), kPage).error().code, EFAULT);
}

TEST(Sharing, ForbiddenMemory) {
  uint8_t* at = map(kPage, MAP_PRIVATE | MAP_ANONYMOUS, -1, PROT_NONE);
  EXPECT_EQ(share(at, kPage, false).error().code, EFAULT);
}

TEST(Sharing, KernelsMappingsAreNamed) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("[vvar") == std::string::npos && line.find("[vdso]") == std::string::npos) continue;
    const auto segments = share(reinterpret_cast<void*>(std::stoul(line, nullptr, 16)), kPage, false);
    ASSERT_FALSE(segments);
    EXPECT_EQ(segments.error().code, EOPNOTSUPP);
    EXPECT_NE(segments.error().text.find("[v"), std::string::npos) << segments.error().text;
  }
}

TEST(Sharing, MemoryOfDevicesIsNamed) {
  alignas(8) uint32_t parameters[30] = {};  // struct io_uring_params
  const auto ring = static_cast<int>(::syscall(SYS_io_uring_setup, 4, parameters));
  if (ring < 0) GTEST_SKIP() << "io_uring, the device at hand, is not allowed here";
  void* at = ::mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, ring, 0);
  ASSERT_NE(at, MAP_FAILED);
  const auto segments = share(at, kPage);
  ASSERT_FALSE(segments);
  EXPECT_EQ(segments.error().code, EOPNOTSUPP);
  EXPECT_NE(segments.error().text.find("io_uring"), std::string::npos) << segments.error().text;
  ::munmap(at, kPage);
  ::close(ring);
}

TEST(Sharing, SeveralMappingsInOrder) {
  const int fd = ::memfd_create("middle", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, 3 * kPage), 0);
  uint8_t* at = map(9 * kPage);
  ASSERT_EQ(::mmap(at + 3 * kPage, 3 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0), at + 3 * kPage);
  fill(at, 9 * kPage, 12);
  const auto segments = share(at + 10, 9 * kPage - 20);
  ASSERT_TRUE(segments) << segments.error().text;
  EXPECT_EQ(segments->size(), 3U);
  expect_filled(at, 9 * kPage, 12);
  expect_shared(at + 10, 9 * kPage - 20, *segments);
  ::close(fd);
}

TEST(Sharing, Memfd) {
  const int fd = ::memfd_create("test", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, 6 * kPage), 0);
  auto* at = static_cast<uint8_t*>(::mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 2 * kPage));
  fill(at, 4 * kPage, 13);
  const auto segments = share(at + kPage, 2 * kPage);
  ASSERT_TRUE(segments) << segments.error().text;
  struct stat own{}, given{};
  ASSERT_EQ(::fstat(fd, &own), 0);
  ASSERT_EQ(::fstat(segments->front().fd, &given), 0);
  EXPECT_EQ(own.st_ino, given.st_ino);
  EXPECT_EQ(segments->front().offset, 3 * kPage);
  expect_shared(at + kPage, 2 * kPage, *segments);
  ::munmap(at, 4 * kPage);
  ::close(fd);
}

TEST(Sharing, FilesMappedShared) {
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    TempFile file(folder, 5 * kPage);
    uint8_t* at = map(5 * kPage, MAP_SHARED, file.fd);
    ::close(std::exchange(file.fd, -1));  // its name is left
    fill_share_and_expect(at, 5 * kPage, 14);
    ::munmap(at, 5 * kPage);
  }
}

TEST(Sharing, FilesMappedPrivate) {
  for (const char* folder : {"/dev/shm", "/tmp"}) {
    TempFile file(folder, 5 * kPage);
    uint8_t* at = map(5 * kPage, MAP_PRIVATE, file.fd);
    fill_share_and_expect(at, 5 * kPage, 15);
    uint8_t in_file = 1;
    ASSERT_EQ(::pread(file.fd, &in_file, 1, 0), 1);
    EXPECT_EQ(in_file, 0);
    ::munmap(at, 5 * kPage);
  }
}

TEST(Sharing, SharedMemoryWithoutNameOrDescriptor) {
  const int id = ::shmget(IPC_PRIVATE, 4 * kPage, IPC_CREAT | 0600);
  ASSERT_GE(id, 0);
  auto* segment = static_cast<uint8_t*>(::shmat(id, nullptr, 0));
  ::shmctl(id, IPC_RMID, nullptr);
  for (uint8_t* at : {segment, map(4 * kPage, MAP_SHARED | MAP_ANONYMOUS)}) {
    fill(at, 4 * kPage, 16);
    const auto segments = share(at, 4 * kPage);
    if (segments) {
      expect_shared(at, 4 * kPage, *segments);
    } else {  // without privilege it cannot be opened
      EXPECT_NE(::geteuid(), 0U) << segments.error().text;
      EXPECT_EQ(segments.error().code, EOPNOTSUPP);
    }
  }
  ::shmdt(segment);
}

TEST(Sharing, HugePages) {
  constexpr std::size_t kHuge = std::size_t{2} << 20;
  for (const int kind : {MAP_PRIVATE, MAP_SHARED}) {
    void* at = ::mmap(nullptr, kHuge, PROT_READ | PROT_WRITE, kind | MAP_ANONYMOUS | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT,
                      -1, 0);
    void* more = ::mmap(nullptr, kHuge, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | 21 << MAP_HUGE_SHIFT, -1, 0);
    if (more != MAP_FAILED) ::munmap(more, kHuge);
    if (at == MAP_FAILED || more == MAP_FAILED) GTEST_SKIP() << "fewer than two huge pages of 2 MiB are free";
    if (kind == MAP_PRIVATE || ::geteuid() == 0)
      fill_share_and_expect(static_cast<uint8_t*>(at) + 5 * kPage, 9 * kPage, 17);
    ::munmap(at, kHuge);
  }
  ASSERT_TRUE(share(initialised, 1));  // frees the huge page
}

TEST(Sharing, NothingIsLeftOpenForMemoryThatIsGone) {
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  ASSERT_TRUE(share(initialised, 1));
  const auto before = open_descriptors();
  for (int i = 0; i < 50; ++i) {
    const int fd = ::memfd_create("gone", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, kPage), 0);
    uint8_t* at = map(kPage, MAP_SHARED, fd);
    ASSERT_TRUE(share(at, kPage));
    ::munmap(at, kPage);
    ::close(fd);
  }
  ASSERT_TRUE(share(initialised, 1));
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Sharing, NothingIsKeptOpenForFilesInUse) {
  const auto open_descriptors = [] {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  };
  std::vector<std::pair<int, uint8_t*>> files;
  for (int i = 0; i < 300; ++i) {
    const int fd = ::memfd_create("kept", MFD_CLOEXEC);
    ASSERT_EQ(::ftruncate(fd, kPage), 0);
    files.emplace_back(fd, map(kPage, MAP_SHARED, fd));
  }
  const auto before = open_descriptors();
  for (const auto& [fd, at] : files) {
    const auto segments = share(at, kPage);
    ASSERT_TRUE(segments) << segments.error().text;
    struct stat own{}, given{};
    ASSERT_EQ(::fstat(fd, &own), 0);
    ASSERT_EQ(::fstat(segments->front().fd, &given), 0);
    ASSERT_EQ(own.st_ino, given.st_ino);
  }
  EXPECT_EQ(open_descriptors(), before);
  for (const auto& [fd, at] : files) {
    ::munmap(at, kPage);
    ::close(fd);
  }
}

/// Bytes that this process has read(2) so far (proc_pid_io(5)).
std::size_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::size_t bytes = 0;
  io >> name >> bytes;
  return bytes;
}

TEST(Sharing, CostsNothingForWhatElseIsMapped) {
  constexpr int kRuns = 200;
  constexpr std::size_t kOthers = 8000;
  const auto read_by_one = [](uint8_t* at) {
    const std::size_t before = bytes_read();
    EXPECT_TRUE(share(at, kPage));
    return bytes_read() - before;
  };
  // Each second page readable: as many mappings as pages.
  uint8_t* others = map(kOthers * kPage, MAP_PRIVATE | MAP_ANONYMOUS, -1, PROT_NONE);
  for (std::size_t i = 0; i < kOthers; i += 2) ::mprotect(others + i * kPage, kPage, PROT_READ);
  uint8_t* pages = map(kRuns * 2 * kPage);
  ASSERT_TRUE(share(pages, kPage));
  const std::size_t of_all = [] {
    const std::size_t before = bytes_read();
    EXPECT_TRUE(read_mappings());
    return bytes_read() - before;
  }();
  ASSERT_GT(of_all, kOthers * 40) << "a line of /proc/self/maps has more";
  const auto here = reinterpret_cast<uintptr_t>(pages);
  const std::size_t before = bytes_read();
  EXPECT_EQ(read_mappings(here, here + kPage)->size(), 1U);
  if (bytes_read() - before > of_all / 2) GTEST_SKIP() << "the kernel has no PROCMAP_QUERY (Linux 6.11)";
  std::size_t total = 0;
  for (int i = 1; i < kRuns; ++i) total += read_by_one(pages + static_cast<std::size_t>(i) * 2 * kPage);
  EXPECT_LT(total, 4 * of_all) << "before, each registration read all mappings, twice";
  total = 0;
  for (int i = 0; i < kRuns; ++i) total += read_by_one(pages);
  EXPECT_LT(total, of_all + kRuns * 512) << "pages that are shared already are not looked for";
  ::munmap(pages, kRuns * 2 * kPage);
  ::munmap(others, kOthers * kPage);
}

}  // namespace
}  // namespace uroce::sharing
