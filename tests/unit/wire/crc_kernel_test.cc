#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>

#include "base/random.h"
#include "tests/unit/wire/samples.h"
#include "wire/crc/kernel.h"
#include "wire/crc/polynomial.h"
#include "wire/icrc.h"

namespace uroce::wire {
namespace {

using crc::Kernel;
using test::Bytes;

constexpr std::size_t kLongest = 9216;
constexpr std::size_t kAlignments = 64;

/// The definition, bit by bit.
uint32_t by_bits(uint32_t crc, uint8_t byte) {
  crc ^= byte;
  for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ ((crc & 1) != 0 ? 0xedb88320u : 0u);
  return crc;
}

Bytes random_bytes(uint64_t seed, std::size_t n) {
  Random random(seed);
  Bytes bytes(n);
  for (std::byte& b : bytes) b = static_cast<std::byte>(random.next());
  return bytes;
}

/// The register after each length, from 0 bytes on.
std::vector<uint32_t> registers_of(uint32_t crc, std::span<const std::byte> bytes) {
  std::vector<uint32_t> out{crc};
  for (const std::byte b : bytes) out.push_back(crc = crc::update_bytes(crc, &b, 1));
  return out;
}

/// As a frame counts: a mask over the head.
crc::HeadMask sample_mask() {
  crc::HeadMask mask{};
  std::memset(mask.keep + crc::HeadMask::kBefore, 0xff, sizeof mask.keep - crc::HeadMask::kBefore);
  Random random(3);
  for (std::size_t i = 0; i < crc::kLeastMasked; ++i) {
    mask.keep[crc::HeadMask::kBefore + i] = static_cast<uint8_t>(random.next());
    mask.flip[crc::HeadMask::kBefore + i] = static_cast<uint8_t>(random.next());
  }
  return mask;
}

class EachKernel : public testing::TestWithParam<const Kernel*> {
 protected:
  const Kernel& kernel() const { return *GetParam(); }
  /// The table loads eight bytes at a time, and is slow.
  std::size_t alignments() const { return &kernel() == &crc::kTableKernel ? 8 : kAlignments; }
};

std::string name_of(const testing::TestParamInfo<const Kernel*>& info) { return info.param->name; }
INSTANTIATE_TEST_SUITE_P(Crc, EachKernel, testing::ValuesIn(crc::available().begin(), crc::available().end()), name_of);

TEST(CrcConstants, FoldingAsPublished) {
  // Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ", for the gzip polynomial, and the same
  // rule for longer strides.
  EXPECT_EQ(crc::kForward<128>[0], 0x1751997d0u);
  EXPECT_EQ(crc::kForward<128>[1], 0x0ccaa009eu);
  EXPECT_EQ(crc::kForward<512>[0], 0x154442bd4u);
  EXPECT_EQ(crc::kForward<512>[1], 0x1c6e41596u);
  EXPECT_EQ(crc::kForward<1024>[0], 0x1e88ef372u);
  EXPECT_EQ(crc::kForward<1024>[1], 0x14a7fe880u);
  EXPECT_EQ(crc::kForward<2048>[0], 0x11542778au);
  EXPECT_EQ(crc::kForward<2048>[1], 0x1322d1430u);
}

TEST(CrcConstants, AMultiplierIsTheRegisterAfterZeros) {
  // The register 0x80000000 is the polynomial 1. Each zero byte multiplies by x^8.
  uint32_t power = 0x80000000;
  constexpr std::size_t kLanes = 28;
  for (std::size_t behind = 0; behind < kLanes; ++behind) {
    const auto& [low, high] = crc::kToTheEnd<kLanes>.halves[kLanes - 1 - behind];
    for (int i = 0; i < 4; ++i) power = by_bits(power, 0);
    EXPECT_EQ(high, uint64_t{power} << 1) << behind << " lanes from the end";
    for (int i = 0; i < 8; ++i) power = by_bits(power, 0);
    EXPECT_EQ(low, uint64_t{power} << 1) << behind << " lanes from the end";
    for (int i = 0; i < 4; ++i) power = by_bits(power, 0);
  }
}

TEST(CrcConstants, BarrettGivesTheQuotient) {
  // x^96 = quotient * P + rest, with a rest below x^32. The quotient's first term is x^64; kBarrett has the 64 terms
  // from there to x, reflected; the last term is that which makes the rest short.
  std::array<uint64_t, 2> product{};  // of 97 bits, x^0 in the lowest
  const auto add_multiple = [&](unsigned shift) {
    for (unsigned i = 0; i <= 32; ++i) {
      if ((crc::kPolynomial >> i & 1) != 0) product[(i + shift) / 64] ^= uint64_t{1} << (i + shift) % 64;
    }
  };
  for (unsigned i = 0; i < 64; ++i) {
    if ((crc::kBarrett >> i & 1) != 0) add_multiple(64 - i);
  }
  if ((product[0] >> 32 & 1) != 0) add_multiple(0);
  EXPECT_EQ(product[1], uint64_t{1} << 32);  // x^96
  EXPECT_EQ(product[0] >> 32, 0u);
  EXPECT_EQ(static_cast<uint32_t>(product[0]), crc::power_of_x(96));
}

TEST_P(EachKernel, IsTheDefinition) {
  const Bytes bytes = random_bytes(4, 700);
  uint32_t expected = 0x12345678;
  for (std::size_t n = 0; n <= bytes.size(); ++n) {
    ASSERT_EQ(kernel().update(0x12345678, bytes.data(), n), expected) << n << " bytes";
    if (n < bytes.size()) expected = by_bits(expected, static_cast<uint8_t>(bytes[n]));
  }
}

TEST_P(EachKernel, UpdatesEveryLengthAtEveryAlignment) {
  const Bytes bytes = random_bytes(5, kLongest + kAlignments);
  for (std::size_t at = 0; at < alignments(); ++at) {
    const auto expected = registers_of(0xdebb20e3, std::span(bytes).subspan(at, kLongest));
    for (std::size_t n = 0; n <= kLongest; ++n) {
      ASSERT_EQ(kernel().update(0xdebb20e3, bytes.data() + at, n), expected[n]) << n << " bytes at " << at;
    }
  }
}

TEST_P(EachKernel, CopiesEveryLengthAtEveryAlignment) {
  const Bytes bytes = random_bytes(6, kLongest + kAlignments);
  constexpr std::size_t kRoom = kLongest + 3 * kAlignments;
  Bytes copy(kRoom), expected_copy(kRoom, std::byte{0xa5});
  for (std::size_t at = 0; at < alignments(); ++at) {
    const auto expected = registers_of(1, std::span(bytes).subspan(at, kLongest));
    for (std::size_t n = 0; n <= kLongest; ++n) {
      // Every pair of alignments occurs with some length.
      const std::size_t to = kAlignments + (at * 29 + n * 37) % kAlignments;
      std::memset(copy.data() + to - kAlignments, 0xa5, n + 2 * kAlignments);
      ASSERT_EQ(kernel().copy(1, copy.data() + to, bytes.data() + at, n), expected[n]) << n << " bytes at " << at;
      ASSERT_EQ(std::memcmp(copy.data() + to, bytes.data() + at, n), 0) << n << " bytes at " << at << " to " << to;
      ASSERT_EQ(std::memcmp(copy.data() + to - kAlignments, expected_copy.data(), kAlignments), 0) << n;
      ASSERT_EQ(std::memcmp(copy.data() + to + n, expected_copy.data(), kAlignments), 0) << n;
    }
  }
}

TEST_P(EachKernel, MasksTheHeadOfEveryLengthAtEveryAlignment) {
  const crc::HeadMask mask = sample_mask();
  const Bytes bytes = random_bytes(7, kLongest + kAlignments);
  for (std::size_t at = 0; at < alignments(); ++at) {
    Bytes masked(bytes.begin() + static_cast<std::ptrdiff_t>(at),
                 bytes.begin() + static_cast<std::ptrdiff_t>(at + kLongest));
    for (std::size_t i = 0; i < 64; ++i) {
      const std::size_t in_mask = crc::HeadMask::kBefore + i;
      masked[i] = (masked[i] & std::byte{mask.keep[in_mask]}) ^ std::byte{mask.flip[in_mask]};
    }
    const auto expected = registers_of(0, masked);
    for (std::size_t n = crc::kLeastMasked; n <= kLongest; ++n) {
      ASSERT_EQ(kernel().masked(mask, bytes.data() + at, n), expected[n]) << n << " bytes at " << at;
    }
  }
}

/// A page between two that nobody may touch.
class LonelyPage {
 public:
  LonelyPage() {
    all_ =
        static_cast<std::byte*>(mmap(nullptr, 3 * bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    EXPECT_NE(all_, MAP_FAILED);
    EXPECT_EQ(mprotect(all_, bytes(), PROT_NONE), 0);
    EXPECT_EQ(mprotect(all_ + 2 * bytes(), bytes(), PROT_NONE), 0);
  }
  ~LonelyPage() { munmap(all_, 3 * bytes()); }
  LonelyPage(const LonelyPage&) = delete;
  LonelyPage& operator=(const LonelyPage&) = delete;

  static std::size_t bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }
  std::byte* first() { return all_ + bytes(); }
  std::byte* last(std::size_t n) { return all_ + 2 * bytes() - n; }

 private:
  std::byte* all_;
};

TEST_P(EachKernel, TouchesNothingBesideTheBytes) {
  LonelyPage from, to;
  const crc::HeadMask mask = sample_mask();
  for (std::size_t n = 0; n <= std::min<std::size_t>(LonelyPage::bytes(), 1200); ++n) {
    const uint32_t first = kernel().update(1, from.first(), n);
    EXPECT_EQ(kernel().update(1, from.last(n), n), first);  // all bytes are zero
    EXPECT_EQ(kernel().copy(1, to.first(), from.last(n), n), first);
    EXPECT_EQ(kernel().copy(1, to.last(n), from.first(), n), first);
    if (n < crc::kLeastMasked) continue;
    EXPECT_EQ(kernel().masked(mask, from.first(), n), kernel().masked(mask, from.last(n), n));
  }
}

TEST_P(EachKernel, TheRegisterIsThatOfTheCopy) {
  Bytes source = random_bytes(8, 1500);
  Bytes copy(source.size());
  std::atomic<bool> done = false;
  std::atomic<int> changes = 0;
  // The kernels are meant for a source that an application changes at any time.
  std::thread application([&] {
    for (uint8_t i = 0; !done.load(); ++i, ++changes) {
      for (std::byte& b : source) *static_cast<volatile std::byte*>(&b) = std::byte{i};
    }
  });
  int wrong = 0;
  constexpr int kRuns = 20000, kMostRuns = 2000000, kChanges = 1000;
  for (int run = 0; run < kRuns || (changes.load() < kChanges && run < kMostRuns); ++run) {
    // Long ones, and those that are copied in one word.
    const std::size_t n = run % 4 == 0 ? 4u + 4u * (run / 4 % 2) : source.size() - static_cast<std::size_t>(run % 64);
    const uint32_t crc = kernel().copy(0, copy.data(), source.data(), n);
    wrong += crc != kernel().update(0, copy.data(), n);
  }
  done = true;
  application.join();
  EXPECT_EQ(wrong, 0);
}

/// Makes the ICRC use one kernel while it lives.
class Using {
 public:
  explicit Using(const Kernel& kernel) { crc::use(kernel); }
  ~Using() { crc::use(before_); }
  Using(const Using&) = delete;
  Using& operator=(const Using&) = delete;

 private:
  const Kernel& before_ = crc::active();
};

TEST_P(EachKernel, TakesThePiecesOfAFrame) {
  Random random(9);
  for (int run = 0; run < 400; ++run) {
    const uint8_t version = random.below(2) == 0 ? 4 : 6;
    const std::size_t headers = (version == 4 ? 40 : 60) + 4 * random.below(8);
    const Bytes l3 = random_bytes(random.next(), headers + random.below(kLongest - headers));
    const uint32_t expected = [&] {
      const Using table(crc::kTableKernel);
      return icrc_of(l3, version);
    }();
    const Using own(kernel());
    EXPECT_EQ(icrc_of(l3, version), expected);
    IcrcState updated = IcrcState::begin(std::span(l3).first(headers), version);
    IcrcState copied = updated;
    Bytes copy = l3;
    std::fill(copy.begin() + static_cast<std::ptrdiff_t>(headers), copy.end(), std::byte{0});
    for (std::size_t at = headers; at < l3.size();) {
      const std::size_t longest = random.below(2) == 0 ? 40 : 6000;
      const std::size_t n = std::min<std::size_t>(l3.size() - at, random.below(longest));
      updated.update({l3.data() + at, n});
      copied.copy(copy.data() + at, {l3.data() + at, n});
      at += n;
    }
    EXPECT_EQ(updated.value(), expected) << l3.size() << " bytes";
    EXPECT_EQ(copied.value(), expected) << l3.size() << " bytes";
    EXPECT_EQ(copy, l3);
  }
}

TEST_P(EachKernel, ServesTheIcrc) {
  const Using own(kernel());
  EXPECT_EQ(&crc::active(), &kernel());
  for (const Bytes& frame : {test::hardware_cnp(), test::hardware_uc_send()}) {
    const auto covered = std::span(frame).subspan(14, frame.size() - 14 - kIcrcBytes);
    EXPECT_EQ(icrc_of(covered, 4), load_le32(frame.data() + frame.size() - 4));
  }
}

TEST(CrcKernels, TheTableIsAlwaysThere) {
  ASSERT_FALSE(crc::available().empty());
  EXPECT_EQ(crc::available().back(), &crc::kTableKernel);
  EXPECT_EQ(&crc::active(), crc::available().front());
}

}  // namespace
}  // namespace uroce::wire
