#include "service/memory_file.h"

#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "message/connection.h"

namespace uroce::service {
namespace {

constexpr uint64_t kFilePage = 4096;

/// A memfd with a page for each true, mapped.
struct Pages {
  explicit Pages(const std::vector<bool>& pages) : there(pages), fd(memfd_create("test", MFD_CLOEXEC)) {
    EXPECT_EQ(ftruncate(fd.get(), static_cast<off_t>(bytes())), 0);
    for (std::size_t i = 0; i < there.size(); ++i) {
      if (!there[i]) continue;
      EXPECT_EQ(pwrite(fd.get(), "x", 1, static_cast<off_t>(i * kFilePage)), 1);
    }
    at = static_cast<std::byte*>(mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0));
  }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  ~Pages() { munmap(at, bytes()); }

  uint64_t bytes() const { return there.size() * kFilePage; }
  uint64_t in_file() const {
    struct stat file{};
    EXPECT_EQ(fstat(fd.get(), &file), 0);
    return static_cast<uint64_t>(file.st_blocks) * 512 / kFilePage;
  }

  std::vector<bool> there;
  message::Fd fd;
  std::byte* at = nullptr;
};

long faults() {
  rusage used{};
  getrusage(RUSAGE_THREAD, &used);
  return used.ru_minflt;
}

/// Writes to those pages of [first, end) that were there. A sanitizer's check of a write reads a shadow of the page,
/// and its page faults would be counted with ours.
__attribute__((no_sanitize("address", "undefined"))) void write_to(std::byte* at, const char* there, std::size_t first,
                                                                   std::size_t end) {
  for (std::size_t i = first; i < end; ++i) {
    if (there[i] != 0) at[i * kFilePage] = std::byte{1};
  }
}

/// Makes [first, end) of the file present: counts its holes, fills none, and leaves no page fault for later.
void expect_present(const Pages& pages, std::size_t first, std::size_t end) {
  const uint64_t before = pages.in_file();
  uint64_t holes = 0;
  for (std::size_t i = first; i < end; ++i) holes += pages.there[i] ? 0 : kFilePage;
  const MemoryFile file{.page = kFilePage, .size = pages.bytes()};
  EXPECT_EQ(make_present(file, pages.fd.get(), first * kFilePage, (end - first) * kFilePage,
                         pages.at + first * kFilePage, true),
            holes);
  EXPECT_EQ(pages.in_file(), before);
  const std::vector<char> there(pages.there.begin(), pages.there.end());
  const long faults_before = faults();
  write_to(pages.at, there.data(), first, end);
  EXPECT_EQ(faults() - faults_before, 0);
}

// A long part of the file is asked for the end of its data, a short one for each page.
TEST(MakePresent, FindsTheDataOfLongAndShortParts) {
  std::vector<bool> there(600);
  for (std::size_t i = 0; i < there.size(); ++i) there[i] = i % 7 < 4 || i > 300;
  for (const auto& [first, end] : {std::pair{0, 600}, {1, 599}, {4, 7}, {3, 8}, {290, 320}, {310, 330}, {598, 600}}) {
    expect_present(Pages(there), static_cast<std::size_t>(first), static_cast<std::size_t>(end));
  }
}

TEST(MakePresent, LeavesFilesWithoutOrWithAllPages) {
  expect_present(Pages(std::vector<bool>(500, false)), 0, 500);
  expect_present(Pages(std::vector<bool>(500, true)), 0, 500);
}

// A read's fault maps the pages around it, too, and shared memory is then writable.
TEST(MakePresent, HasAFaultForSeveralPages) {
  constexpr std::size_t kPages = 4096;
  const Pages pages(std::vector<bool>(kPages, true));
  const long before = faults();
  expect_present(pages, 0, kPages);
  EXPECT_LT(faults() - before, static_cast<long>(kPages / 4));
}

}  // namespace
}  // namespace uroce::service
