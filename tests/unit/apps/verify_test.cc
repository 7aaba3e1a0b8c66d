// Patterns find every wrong byte; the arithmetic of atomics is that of a word.
#include "perf/verify.h"

#include <gtest/gtest.h>

#include <vector>

namespace uroce::perf {
namespace {

std::vector<std::byte> pattern(std::size_t length, const PatternKey& key) {
  std::vector<std::byte> bytes(length);
  fill_pattern(bytes, key);
  return bytes;
}

TEST(Pattern, ChecksAgainstItself) {
  for (const std::size_t length : {0u, 1u, 7u, 8u, 9u, 63u, 64u, 1000u, 65536u}) {
    const PatternKey key{1, 3, 17};
    EXPECT_FALSE(check_pattern(pattern(length, key), key)) << length;
  }
}

TEST(Pattern, FindsEachSingleWrongByte) {
  const PatternKey key{0, 0, 5};
  auto bytes = pattern(100, key);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::byte right = bytes[i];
    bytes[i] ^= std::byte{0x10};
    const auto wrong = check_pattern(bytes, key);
    ASSERT_TRUE(wrong) << i;
    EXPECT_EQ(wrong->offset, i);
    EXPECT_EQ(wrong->expected, right);
    EXPECT_EQ(wrong->got, bytes[i]);
    EXPECT_EQ(wrong->bytes, 1u);
    bytes[i] = right;
  }
}

TEST(Pattern, DiffersByDirectionQpAndIteration) {
  const PatternKey key{0, 2, 9};
  const auto bytes = pattern(4096, key);
  for (const PatternKey& other :
       {PatternKey{1, 2, 9}, PatternKey{0, 3, 9}, PatternKey{0, 2, 10}, PatternKey{0, 9, 2}}) {
    const auto wrong = check_pattern(bytes, other);
    ASSERT_TRUE(wrong);
    EXPECT_GT(wrong->bytes, 4000u);  // stale or misplaced data cannot pass for right
  }
}

TEST(Pattern, DoesNotRepeatWithinAMessage) {
  const auto bytes = pattern(8192, {0, 0, 0});
  EXPECT_FALSE(std::equal(bytes.begin(), bytes.begin() + 4096, bytes.begin() + 4096));
  EXPECT_TRUE(check_pattern(std::span(bytes).subspan(4096), {0, 0, 0}));  // a shifted packet is found
}

TEST(Pattern, MarkedOneEndsWithItsMark) {
  const PatternKey key{0, 0, 3};
  auto bytes = pattern(16, key);
  bytes.back() = std::byte{4};
  EXPECT_FALSE(check_marked(bytes, key, std::byte{4}));
  EXPECT_TRUE(check_marked(bytes, key, std::byte{5}));
  bytes[2] ^= std::byte{1};
  const auto wrong = check_marked(bytes, key, std::byte{4});
  ASSERT_TRUE(wrong);
  EXPECT_EQ(wrong->offset, 2u);
  const std::vector<std::byte> one{std::byte{4}};
  EXPECT_FALSE(check_marked(one, key, std::byte{4}));
}

TEST(Pattern, MismatchIsSaidInFull) {
  const Mismatch wrong{4096, std::byte{0x3a}, std::byte{0}, 12};
  EXPECT_EQ(describe(wrong, "WRITE", {0, 3, 17}, 65536),
            "WRITE, QP 3, iteration 17: offset 4096 expected 0x3a, got 0x00 (12 of 65536 bytes differ)");
}

TEST(AtomicModel, FetchAndAddFollowsTheWord) {
  const AtomicModel model(AtomicType::fetch_and_add, {1, 2, 3});
  uint64_t word = model.value(0);
  for (uint64_t n = 0; n < 1000; ++n) {
    EXPECT_EQ(word, model.value(n));
    word += model.compare_add(n);
  }
}

TEST(AtomicModel, CompareAndSwapFollowsTheWordThroughItsMisses) {
  const AtomicModel model(AtomicType::cmp_and_swap, {1, 2, 3});
  uint64_t word = model.value(0);
  int missed = 0;
  for (uint64_t n = 0; n < 1000; ++n) {
    EXPECT_EQ(word, model.value(n));
    EXPECT_NE(model.swap(n), word);
    if (word == model.compare_add(n)) {
      word = model.swap(n);
    } else {
      ++missed;
      EXPECT_TRUE(AtomicModel::misses(n));
    }
  }
  EXPECT_EQ(missed, 125);
}

TEST(AtomicModel, WritesMakeTheWordWhatTheyCarry) {
  const AtomicModel model(AtomicType::write, {1, 2, 3});
  for (uint64_t n = 0; n < 1000; ++n) {
    EXPECT_EQ(model.swap(n), model.value(n + 1));
    EXPECT_NE(model.swap(n), model.value(n));
  }
}

TEST(AtomicModel, WordsDifferFromSlotToSlot) {
  const AtomicModel a(AtomicType::fetch_and_add, {1, 0, 0}), b(AtomicType::fetch_and_add, {1, 0, 1});
  EXPECT_NE(a.value(0), b.value(0));
  EXPECT_NE(a.compare_add(0), b.compare_add(0));
}

}  // namespace
}  // namespace uroce::perf
