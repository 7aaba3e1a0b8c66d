#include "service/mapping.h"

#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <unistd.h>

namespace uroce::service {
namespace {

constexpr uint64_t kPage = 4096;

message::Fd memory_file(uint64_t bytes) {
  message::Fd fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  return fd;
}

TEST(Mapping, JoinsSegmentsIntoOneRun) {
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(4 * kPage));
  fds.push_back(memory_file(4 * kPage));
  EXPECT_EQ(pwrite(fds[0].get(), "ab", 2, 3 * kPage - 2), 2);
  EXPECT_EQ(pwrite(fds[1].get(), "cd", 2, kPage), 2);
  const message::Segment segments[] = {{0, kPage, 2 * kPage}, {1, kPage, kPage}};
  auto mapping = Mapping::make(segments, fds, 0x7000000123, 2 * kPage, true);
  ASSERT_TRUE(mapping) << mapping.error().text;
  EXPECT_EQ((*mapping)->bytes(), 3 * kPage);
  const std::byte* second = (*mapping)->data() - 0x123 + 2 * kPage;
  EXPECT_EQ(std::memcmp(second - 2, "abcd", 4), 0);
}

TEST(Mapping, FallsOnTheClientsAlignment) {
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(kPage));
  const message::Segment segment{0, 0, kPage};
  const uint64_t address = (uint64_t{5} << 30) + 3 * kPage + 8;
  auto mapping = Mapping::make({&segment, 1}, fds, address, 8, false);
  ASSERT_TRUE(mapping);
  EXPECT_EQ((reinterpret_cast<uint64_t>((*mapping)->data()) - address) % (uint64_t{1} << 30), 0u);
}

TEST(Mapping, RefusesInvalidSegments) {
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(2 * kPage));
  const auto code = [&](message::Segment segment, uint64_t address, uint64_t length) {
    auto mapping = Mapping::make({&segment, 1}, fds, address, length, true);
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
    auto mapping = Mapping::make({&segment, 1}, fds, 0, 8, false);
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
  auto mapping = Mapping::make({&segment, 1}, fds, address, 4 * kPage, true);
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
  auto mapping = Mapping::make({&all, 1}, fds, 0, 8, true);
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
    return Mapping::make({&segment, 1}, fds, address, length, true);
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
  EXPECT_EQ(Mapping::make(twice, fds, 0, 2 * kPage, true).error().code, EINVAL) << "a gap between";
  EXPECT_EQ(make(0, kPage, kPage).error().code, EINVAL) << "not where huge pages can be";
}

TEST(Mapping, GoesOnWithZeroesWhenTheFileIsCutShort) {
  std::vector<message::Fd> fds;
  fds.push_back(memory_file(2 * kPage));
  const message::Segment segment{0, 0, 2 * kPage};
  auto mapping = *Mapping::make({&segment, 1}, fds, 0, 2 * kPage, true);
  auto other = *Mapping::make({&segment, 1}, fds, 0, 2 * kPage, true);
  mapping->data()[kPage] = std::byte{1};
  EXPECT_FALSE(mapping->broken());
  ASSERT_EQ(ftruncate(fds[0].get(), kPage), 0);
  mapping->data()[kPage] = std::byte{2};  // without the fault watch this would kill the process
  EXPECT_TRUE(mapping->broken());
  EXPECT_FALSE(other->broken());
  EXPECT_EQ(mapping->data()[0], std::byte{0});
}

}  // namespace
}  // namespace uroce::service
