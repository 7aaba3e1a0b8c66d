// Pages are ordinary private memory again when their last registration ends.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shared_view.h"
#include "sharing/mappings.h"
#include "sharing/page_counts.h"
#include "sharing/sharing.h"

namespace uroce::sharing {
namespace {

constexpr std::size_t kPage = 4096;

/// Where no other test has unmapped memory without ending its registrations, and no neighbour becomes one mapping with
/// these pages.
uint8_t* map_pages(std::size_t pages) {
  static uintptr_t next = uintptr_t{1} << 41;
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE;
  void* at = ::mmap(reinterpret_cast<void*>(next), pages * kPage, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  EXPECT_NE(at, MAP_FAILED);
  next += (pages + 16) * kPage;
  return static_cast<uint8_t*>(at);
}

/// The mappings of these pages.
std::vector<Mapping> mappings_of(const uint8_t* at, std::size_t pages) {
  const auto first = reinterpret_cast<uintptr_t>(at);
  auto mappings = read_mappings(first, first + pages * kPage);
  EXPECT_TRUE(mappings);
  return mappings ? *mappings : std::vector<Mapping>{};
}

void expect_private(const uint8_t* at, std::size_t pages) {
  const auto mappings = mappings_of(at, pages);
  ASSERT_EQ(mappings.size(), 1U);
  EXPECT_FALSE(mappings[0].shared);
  EXPECT_EQ(mappings[0].inode, 0U);
}

bool all_are(const uint8_t* at, std::size_t length, uint8_t value) {
  return std::all_of(at, at + length, [value](uint8_t byte) { return byte == value; });
}

std::vector<SharedSegment> share(uint8_t* at, std::size_t length) {
  auto segments = Sharing::of_this_process().share(at, length, true);
  EXPECT_TRUE(segments) << segments.error().text;
  return segments ? *segments : std::vector<SharedSegment>{};
}

void end(uint8_t* at, std::size_t length) { Sharing::of_this_process().done_with(at, length); }

class SharingWayBack : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Pages, SharingWayBack, ::testing::Values(1, 16, 100, 300, 3000));

TEST_P(SharingWayBack, HasTheBytesOfProgramAndPeer) {
  const std::size_t pages = GetParam();
  uint8_t* at = map_pages(pages + 2);
  std::memset(at, 1, (pages + 2) * kPage);
  const auto segments = share(at + kPage, pages * kPage);
  {
    const SharedView view(segments, at + kPage);
    view[pages * kPage - 1] = 3;
  }
  at[kPage] = 2;
  end(at + kPage, pages * kPage);
  expect_private(at, pages + 2);
  EXPECT_EQ(at[kPage], 2);
  EXPECT_EQ(at[(pages + 1) * kPage - 1], 3);
  EXPECT_TRUE(all_are(at, kPage, 1));
  EXPECT_TRUE(all_are(at + kPage + 1, pages * kPage - 2, 1));
  ASSERT_EQ(::madvise(at, (pages + 2) * kPage, MADV_DONTNEED), 0);
  EXPECT_TRUE(all_are(at, (pages + 2) * kPage, 0));
}

TEST_P(SharingWayBack, NeverTouchedMemoryIsOneMappingAgain) {
  const std::size_t pages = GetParam();
  uint8_t* at = map_pages(pages + 2);
  share(at + kPage, pages * kPage);
  at[0] = at[kPage] = at[(pages + 1) * kPage] = 7;
  end(at + kPage, pages * kPage);
  expect_private(at, pages + 2);
  EXPECT_EQ(at[kPage], 7);
  EXPECT_TRUE(all_are(at + kPage + 1, pages * kPage - 1, 0));
}

TEST(SharingWayBackOfParts, BeginsWithTheLastRegistration) {
  uint8_t* at = map_pages(8);
  std::memset(at, 5, 8 * kPage);
  share(at, 4 * kPage);
  share(at + 2 * kPage, 4 * kPage);
  share(at + 3 * kPage + 10, 20);  // a part of a page
  end(at, 4 * kPage);
  EXPECT_FALSE(mappings_of(at, 2)[0].shared);
  EXPECT_TRUE(mappings_of(at + 2 * kPage, 4)[0].shared);
  end(at + 2 * kPage, 4 * kPage);
  EXPECT_FALSE(mappings_of(at + 2 * kPage, 1)[0].shared);
  EXPECT_TRUE(mappings_of(at + 3 * kPage, 1)[0].shared);
  end(at + 3 * kPage + 10, 20);
  expect_private(at, 8);
  EXPECT_TRUE(all_are(at, 8 * kPage, 5));
}

TEST(SharingWayBackOfParts, KeepsTheProtectionOfNow) {
  uint8_t* at = map_pages(4);
  std::memset(at, 6, 4 * kPage);
  share(at, 4 * kPage);
  ASSERT_EQ(::mprotect(at + kPage, kPage, PROT_READ), 0);
  end(at, 4 * kPage);
  EXPECT_EQ(mappings_of(at + kPage, 1)[0].protection, PROT_READ);
  ASSERT_EQ(::mprotect(at, 4 * kPage, PROT_READ | PROT_WRITE), 0);
  expect_private(at, 4);
  EXPECT_TRUE(all_are(at, 4 * kPage, 6));
}

TEST(SharingWayBackOfParts, ReadOnlyMemoryStaysSo) {
  uint8_t* at = map_pages(4);
  std::memset(at, 6, 4 * kPage);
  ASSERT_EQ(::mprotect(at, 4 * kPage, PROT_READ), 0);
  ASSERT_TRUE(Sharing::of_this_process().share(at, 4 * kPage, false));
  end(at, 4 * kPage);
  expect_private(at, 4);
  EXPECT_EQ(mappings_of(at, 4)[0].protection, PROT_READ);
  EXPECT_TRUE(all_are(at, 4 * kPage, 6));
}

TEST(SharingWayBackOfParts, FollowsPagesThatTheProgramMoved) {
  uint8_t* at = map_pages(4);
  uint8_t* elsewhere = map_pages(4);
  std::memset(at, 8, 4 * kPage);
  share(at, 4 * kPage);
  ASSERT_EQ(::mremap(at, 4 * kPage, 4 * kPage, MREMAP_MAYMOVE | MREMAP_FIXED, elsewhere), elsewhere);
  end(at, 4 * kPage);
  EXPECT_TRUE(mappings_of(at, 4).empty());
  expect_private(elsewhere, 4);
  EXPECT_TRUE(all_are(elsewhere, 4 * kPage, 8));
}

TEST(SharingWayBackOfParts, PutsNothingWhereTheProgramHasNothing) {
  uint8_t* at = map_pages(6);
  share(at, 6 * kPage);
  ::munmap(at + 2 * kPage, 2 * kPage);
  end(at, 6 * kPage);
  EXPECT_TRUE(mappings_of(at + 2 * kPage, 2).empty());
  expect_private(at, 2);
  expect_private(at + 4 * kPage, 2);
}

// The calling thread moves the first chunks. The one with a thread control block goes on from there by another thread.
TEST(SharingWayBackOfParts, GoesOnBehindAThreadControlBlock) {
  constexpr std::size_t kPages = 512, kStack = 128;
  uint8_t* at = map_pages(kPages);
  for (std::size_t page = 0; page < kPages; ++page) std::memset(at + page * kPage, static_cast<int>(page % 251), kPage);
  uint8_t* const stack = at + 256 * kPage;
  pthread_attr_t attributes;
  ASSERT_EQ(::pthread_attr_init(&attributes), 0);
  ASSERT_EQ(::pthread_attr_setstack(&attributes, stack, kStack * kPage), 0);
  std::atomic<bool> stop{false};
  const auto wait = [](void* flag) -> void* {
    while (!static_cast<std::atomic<bool>*>(flag)->load()) ::usleep(1000);
    return nullptr;
  };
  pthread_t thread;
  ASSERT_EQ(::pthread_create(&thread, &attributes, wait, &stop), 0);
  ::pthread_attr_destroy(&attributes);
  share(at, kPages * kPage);
  end(at, kPages * kPage);
  for (std::size_t page = 0; page < kPages; ++page) {
    if (page >= 256 && page < 256 + kStack) continue;
    EXPECT_TRUE(all_are(at + page * kPage, kPage, static_cast<uint8_t>(page % 251))) << "page " << page;
  }
  expect_private(at, kPages);
  stop = true;
  ASSERT_EQ(::pthread_join(thread, nullptr), 0);
}

/// Shares memory, and has a child that runs no handlers of fork() end that. 0 where the parent's pages stay.
int share_beside_a_child_without_handlers() {
  uint8_t* at = map_pages(4);
  std::memset(at, 9, 4 * kPage);
  const auto segments = Sharing::of_this_process().share(at, 4 * kPage, true);
  if (!segments) return 1;
  const pid_t child = ::_Fork();
  if (child == 0) {
    end(at, 4 * kPage);
    ::_exit(0);
  }
  int status = 1;
  if (::waitpid(child, &status, 0) != child || status != 0) return 2;
  const SharedView view(*segments, at);
  return all_are(at, 4 * kPage, 9) && view[kPage] == 9 && mappings_of(at, 4)[0].shared ? 0 : 3;
}

// In a child of its own: other tests have left the stack among the shared pages.
TEST(SharingWayBackOfParts, IsNotTakenByAChildWithoutHandlers) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(share_beside_a_child_without_handlers());
  int status = 1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(PageCounts, AreThoseOfAnArrayOfCounters) {
  constexpr std::size_t kPages = 64;
  constexpr unsigned kSeed = 11;
  std::minstd_rand random(kSeed);
  std::vector<std::size_t> expected(kPages);
  std::vector<std::pair<uintptr_t, uintptr_t>> added;
  PageCounts counts;
  for (int step = 0; step < 20000; ++step) {
    if (added.size() < 20 && random() % 2 == 0) {
      const uintptr_t first = random() % kPages, last = first + random() % (kPages - first) + 1;
      counts.add(first, last);
      added.emplace_back(first, last);
      for (uintptr_t page = first; page < last; ++page) ++expected[page];
    } else if (!added.empty()) {
      std::swap(added[random() % added.size()], added.back());
      const auto [first, last] = added.back();
      added.pop_back();
      Intervals::List free;
      for (uintptr_t page = first; page < last; ++page) {
        if (--expected[page] > 0) continue;
        if (free.empty() || free.back().second != page) free.emplace_back(page, page);
        ++free.back().second;
      }
      ASSERT_EQ(counts.remove(first, last), free) << "seed " << kSeed << ", step " << step;
    }
    std::size_t held = 0;
    for (const auto& [first, last] : counts.within(0, kPages)) held += last - first;
    ASSERT_EQ(held, static_cast<std::size_t>(std::ranges::count_if(expected, [](std::size_t n) { return n > 0; })));
  }
}

}  // namespace
}  // namespace uroce::sharing
