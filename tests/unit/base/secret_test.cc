#include "base/secret.h"

#include <algorithm>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace uroce {
namespace {

std::vector<uint64_t> numbers(SecretStream stream, int count = 20) {
  std::vector<uint64_t> list;
  while (count-- > 0) list.push_back(stream.next());
  return list;
}

TEST(Secret, ReplaysFromANumber) {
  EXPECT_EQ(numbers(SecretStream(7)), numbers(SecretStream(7)));
  EXPECT_NE(numbers(SecretStream(7)), numbers(SecretStream(8)));
}

TEST(Secret, StreamIsChaCha20) {
  // The key stream of the all-zero key and nonce (RFC 8439, A.1, test vector 1).
  SecretStream stream(Secret(0));
  EXPECT_EQ(stream.next(), 0x903df1a0ade0b876u);
  EXPECT_EQ(stream.next(), 0x28bd8653e56a5d40u);
}

TEST(Secret, StreamGoesOnAfterABlock) {
  const auto list = numbers(SecretStream(3), 10'000);
  EXPECT_EQ(std::set(list.begin(), list.end()).size(), list.size());
}

TEST(Secret, FreshOnesDiffer) {
  EXPECT_NE(numbers(SecretStream(Secret::fresh())), numbers(SecretStream(Secret::fresh())));
}

TEST(Secret, EachPurposeAndIndexIsAnother) {
  const Secret secret(7);
  std::set<uint64_t> first;
  for (const char* purpose : {"keys", "epochs", "psns"}) {
    for (uint64_t index = 0; index < 3; ++index) first.insert(SecretStream(secret.derive(purpose, index)).next());
  }
  EXPECT_EQ(first.size(), 9u);
  EXPECT_FALSE(first.contains(SecretStream(secret).next()));
}

/// The state of a SplitMix64 behind a number, as an attacker computes it.
uint64_t state_behind(uint64_t z) {
  const auto unshift = [](uint64_t y, int by) {
    uint64_t x = y;
    for (int i = 0; i < 64; i += by) x = y ^ (x >> by);
    return x;
  };
  const auto inverse = [](uint64_t odd) {
    uint64_t x = odd;
    for (int i = 0; i < 6; ++i) x *= 2 - odd * x;
    return x;
  };
  z = unshift(z, 31) * inverse(0x94d049bb133111eb);
  z = unshift(z, 27) * inverse(0xbf58476d1ce4e5b9);
  return unshift(z, 30);
}

TEST(Secret, ANumberDoesNotTellTheNext) {
  Random weak(99);
  const uint64_t seen = weak.next();
  EXPECT_EQ(Random(state_behind(seen)).next(), weak.next()) << "the attack works";
  const auto list = numbers(SecretStream(99), 3);
  EXPECT_NE(Random(state_behind(list[0])).next(), list[1]);
  EXPECT_NE(Random(state_behind(list[1])).next(), list[2]);
}

TEST(Secret, BelowStaysBelowAndReachesEveryValue) {
  SecretStream stream(1);
  std::vector<int> seen(10);
  for (int i = 0; i < 10'000; ++i) ++seen.at(stream.below(seen.size()));
  for (const int n : seen) EXPECT_NEAR(n, 1000, 150);
}

TEST(SecretPermutation, ReachesEveryNumberOnce) {
  const SecretPermutation permute(Secret(5));
  for (uint32_t bits = 1; bits <= 14; ++bits) {
    std::vector<bool> seen(1u << bits);
    for (uint32_t x = 0; x < seen.size(); ++x) {
      const uint32_t y = permute(x, bits, 77);
      ASSERT_LT(y, seen.size());
      EXPECT_FALSE(seen[y]) << bits;
      seen[y] = true;
    }
  }
}

TEST(SecretPermutation, OfAllBitsDoesNotRepeat) {
  const SecretPermutation permute(Secret(5));
  std::set<uint32_t> seen;
  for (uint32_t x = 0; x < 100'000; ++x) seen.insert(permute(x, 32));
  EXPECT_EQ(seen.size(), 100'000u);
}

TEST(SecretPermutation, SecretAndTweakSelectIt) {
  const auto list = [](const SecretPermutation& permute, uint64_t tweak) {
    std::vector<uint32_t> out;
    for (uint32_t x = 0; x < 16; ++x) out.push_back(permute(x, 16, tweak));
    return out;
  };
  const SecretPermutation one(Secret(5)), other(Secret(6));
  EXPECT_NE(list(one, 0), list(other, 0));
  EXPECT_NE(list(one, 0), list(one, 1));
  EXPECT_FALSE(std::ranges::is_sorted(list(one, 0)));
}

}  // namespace
}  // namespace uroce
