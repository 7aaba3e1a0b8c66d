// Ranges that are long enough for huge pages.
#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "shared_view.h"
#include "sharing/sharing.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kPage = 4096, kHugePage = std::size_t{2} << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, Linux 6.1

/// Private memory without pages that starts `skip` bytes behind where a huge page may.
class Range {
 public:
  explicit Range(std::size_t length, std::size_t skip = 0) : bytes_(length + skip + kHugePage), length_(length) {
    mapped_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(mapped_, MAP_FAILED);
    const auto start = reinterpret_cast<uintptr_t>(mapped_);
    at_ = static_cast<uint8_t*>(mapped_) + (-start % kHugePage) + skip;
    ::madvise(mapped_, bytes_, MADV_NOHUGEPAGE);
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range() { ::munmap(mapped_, bytes_); }

  std::vector<SharedSegment> share() const {
    auto segments = Sharing::of_this_process().share(at_, length_, true);
    EXPECT_TRUE(segments) << segments.error().text;
    return segments.value_or(std::vector<SharedSegment>{});
  }
  uint8_t* at() const { return at_; }
  std::size_t length() const { return length_; }

 private:
  std::size_t bytes_, length_;
  void* mapped_ = nullptr;
  uint8_t* at_ = nullptr;
};

/// Stores into each page that `touched` names, shares the range, and expects that its bytes stay and are shared.
template <class Touched>
void expect_same_bytes(const Range& range, const Touched& touched) {
  const auto byte_of = [&](std::size_t i) {
    return touched(i / kPage) ? static_cast<uint8_t>(1 + (i / kPage + i) % 255) : uint8_t{0};
  };
  for (std::size_t i = 0; i < range.length(); ++i) {
    if (touched(i / kPage)) range.at()[i] = byte_of(i);
  }
  const auto segments = range.share();
  ASSERT_EQ(segments.size(), 1U);
  for (std::size_t i = 0; i < range.length(); i += 61) ASSERT_EQ(range.at()[i], byte_of(i)) << "at byte " << i;
  const SharedView view(segments, range.at());
  for (std::size_t i = 0; i < range.length(); i += 509) ASSERT_EQ(view[i], byte_of(i)) << "at byte " << i;
  for (std::size_t i = 0; i < range.length(); i += kPage) {
    volatile uint8_t& own = range.at()[i];
    own = 77;
    ASSERT_EQ(view[i], 77) << "at byte " << i;
    view[i] = 78;
    ASSERT_EQ(own, 78) << "at byte " << i;
  }
}

bool has_collapse() {
  const int fd = ::memfd_create("probe", MFD_CLOEXEC);
  EXPECT_EQ(::ftruncate(fd, kHugePage), 0);
  const Range probe(kHugePage);
  void* at = ::mmap(probe.at(), kHugePage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  EXPECT_NE(at, MAP_FAILED);
  ::close(fd);
  probe.at()[0] = 1;
  return ::madvise(at, kHugePage, kCollapse) == 0;
}

long faults() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  return used.ru_minflt;
}

/// Of small pages, of huge ones, and so long that the huge ones come in parts.
constexpr std::size_t kLengths[] = {3 * kHugePage, 10 * kHugePage, 80 * kHugePage + 5 * kPage};

TEST(SharingLargeRanges, EveryPageTouched) {
  for (const std::size_t length : kLengths) expect_same_bytes(Range(length), [](std::size_t) { return true; });
  for (const std::size_t skip : {kPage, 100 * kPage, kHugePage - kPage}) {
    expect_same_bytes(Range(10 * kHugePage, skip), [](std::size_t) { return true; });
  }
}

TEST(SharingLargeRanges, EverySecondPageTouched) {
  expect_same_bytes(Range(3 * kHugePage), [](std::size_t page) { return page % 2 == 0; });
  expect_same_bytes(Range(10 * kHugePage, 3 * kPage), [](std::size_t page) { return page % 2 != 0; });
}

TEST(SharingLargeRanges, SomePartsTouched) {
  expect_same_bytes(Range(3 * kHugePage, 7 * kPage), [](std::size_t page) { return page / 70 % 2 == 0; });
  expect_same_bytes(Range(80 * kHugePage, 7 * kPage), [](std::size_t page) { return page / 700 % 2 == 0; });
  expect_same_bytes(Range(10 * kHugePage), [](std::size_t page) { return page % 512 == 511; });
}

TEST(SharingLargeRanges, NoPageTouched) {
  for (const std::size_t length : {3 * kHugePage, 10 * kHugePage}) {
    expect_same_bytes(Range(length, kPage), [](std::size_t) { return false; });
  }
}

TEST(SharingLargeRanges, ReadPagesHaveZeros) {  // the kernel's page of zeros
  const Range range(20 * kHugePage);
  uint8_t sum = 0;
  for (std::size_t i = 0; i < range.length(); i += 3 * kPage) sum |= static_cast<volatile uint8_t&>(range.at()[i]);
  EXPECT_EQ(sum, 0);
  expect_same_bytes(range, [](std::size_t) { return false; });
}

// Times differ from run to run; faults tell whether huge pages are moved as such.
TEST(SharingLargeRanges, HaveFewFaults) {
  if (!has_collapse()) GTEST_SKIP() << "the kernel makes no huge pages (MADV_COLLAPSE, Linux 6.1)";
  constexpr std::size_t kLength = 32 * kHugePage;
  for (const bool touched : {false, true}) {
    const Range range(kLength);
    if (touched) std::memset(range.at(), 1, kLength);
    const long before = faults();
    ASSERT_FALSE(range.share().empty());
    EXPECT_LT(faults() - before, static_cast<long>(kLength / kPage / 8)) << "before, one for each page, or two";
  }
}

TEST(SharingLargeRanges, HaveHugePagesInAProgramThatWantsNone) {
  if (!has_collapse()) GTEST_SKIP() << "the kernel makes no huge pages (MADV_COLLAPSE, Linux 6.1)";
  constexpr std::size_t kLength = 32 * kHugePage;
  ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0), 0);
  {
    const Range range(kLength);
    const long before = faults();
    ASSERT_FALSE(range.share().empty());
    EXPECT_LT(faults() - before, static_cast<long>(kLength / kPage / 8));
  }
  EXPECT_EQ(::prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0), 1) << "the program's setting is as it was";
  ASSERT_EQ(::prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0), 0);
}

TEST(SharingLargeRanges, MayBeUnmappedAndProtectedInPart) {
  const Range range(20 * kHugePage, kPage);
  std::memset(range.at(), 5, range.length());
  const auto segments = range.share();
  ASSERT_EQ(segments.size(), 1U);
  const auto blocks = [&] {
    struct stat file{};
    ::fstat(segments[0].fd, &file);
    return static_cast<std::size_t>(file.st_blocks) * 512;
  };
  const std::size_t before = blocks();
  constexpr std::size_t kGone = 4 * kHugePage + 3 * kPage;
  ASSERT_EQ(::munmap(range.at() + 5 * kPage, kGone), 0);
  ASSERT_EQ(::mprotect(range.at() + 6 * kHugePage, 9 * kPage, PROT_READ), 0);
  const Range another(20 * kHugePage);  // its registration pays for a look at what is gone
  ASSERT_FALSE(another.share().empty());
  const Range third(kPage);
  ASSERT_FALSE(third.share().empty());
  EXPECT_LE(blocks(), before + another.length() + kPage - kGone) << "unmapped pages are freed";
  const SharedView view(segments, range.at());
  for (std::size_t i = 0; i < range.length(); i += kPage) {
    if (i >= 5 * kPage && i < 5 * kPage + kGone) continue;
    ASSERT_EQ(range.at()[i], 5) << "at byte " << i;
    ASSERT_EQ(view[i], 5) << "at byte " << i;
  }
}

}  // namespace
}  // namespace uroce::sharing
