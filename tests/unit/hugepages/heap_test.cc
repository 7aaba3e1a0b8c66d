#include "hugepages/heap.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <vector>

#include <sys/resource.h>
#include <unistd.h>

namespace uroce::hugepages {
namespace {

constexpr std::size_t kObject = 1024;
constexpr std::size_t kObjects = 16384;
constexpr uint64_t kBytes = kObject * kObjects;

using Objects = std::vector<std::unique_ptr<std::byte[]>>;

long page_faults() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

Objects make_objects() {
  Objects made(kObjects);
  for (auto& one : made) one = std::make_unique<std::byte[]>(kObject);
  return made;
}

class HeapReserveTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    GTEST_SKIP() << "the sanitizer has a heap of its own";
#endif
  }
};

TEST_F(HeapReserveTest, ItsObjectsMakeNoPageFaults) {
  const HeapReserve reserve(2 * kBytes);
  const long before = page_faults();
  const Objects made = make_objects();
  // The objects have 4,096 small pages. Some room for what else the process touches.
  EXPECT_LT(page_faults() - before, 64);
}

TEST_F(HeapReserveTest, WhatIsLeftGoesBack) {
  const uint64_t before = anonymous_bytes(getpid());
  Objects made;
  {
    const HeapReserve reserve(4 * kBytes);
    EXPECT_GT(anonymous_bytes(getpid()), before + 3 * kBytes);
    made = make_objects();
  }
  EXPECT_GT(anonymous_bytes(getpid()), before + kBytes / 2);
  EXPECT_LT(anonymous_bytes(getpid()), before + 2 * kBytes);
}

TEST_F(HeapReserveTest, FetchesLittleMoreThanAsked) {
  const uint64_t before = anonymous_bytes(getpid());
  const HeapReserve reserve(kBytes);
  // With MALLOC_PERTURB_ the C library touches twice as much.
  EXPECT_LT(anonymous_bytes(getpid()), before + 3 * kBytes);
}

TEST(AnonymousBytes, OfNoProcessAreNone) { EXPECT_EQ(anonymous_bytes(-1), 0U); }

TEST(AnonymousBytes, BeyondMoreThanThereAreAreNone) {
  EXPECT_EQ(anonymous_bytes_beyond(UINT64_MAX, getpid()), 0U);
  EXPECT_GT(anonymous_bytes_beyond(0, getpid()), 0U);
}

}  // namespace
}  // namespace uroce::hugepages
