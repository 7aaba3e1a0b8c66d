#include "perf/verify.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

namespace uroce::perf {
namespace {

constexpr uint64_t kGolden = 0x9e3779b97f4a7c15;

constexpr uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

constexpr uint64_t seed_of(const PatternKey& key) {
  return mix(mix(key.iteration + kGolden) ^ (uint64_t{key.direction} << 32 | key.qp));
}

/// The pattern's word at byte offset 8 * `index`.
constexpr uint64_t word_at(uint64_t seed, uint64_t index) { return mix(seed + index * kGolden); }

/// The words of [first, first + length) bytes; the last may be partial.
template <class Visit>
void for_each_word(std::size_t length, uint64_t seed, Visit visit) {
  for (std::size_t offset = 0; offset < length; offset += 8) {
    visit(offset, word_at(seed, offset / 8), std::min<std::size_t>(8, length - offset));
  }
}

void count_differences(std::span<const std::byte> got, uint64_t expected, std::size_t offset,
                       std::optional<Mismatch>& found) {
  for (std::size_t i = 0; i < got.size(); ++i) {
    const auto want = static_cast<std::byte>(expected >> (8 * i));
    if (got[i] == want) continue;
    if (!found) found = Mismatch{offset + i, want, got[i], 0};
    ++found->bytes;
  }
}

}  // namespace

void fill_pattern(std::span<std::byte> bytes, const PatternKey& key) {
  for_each_word(bytes.size(), seed_of(key), [&](std::size_t offset, uint64_t word, std::size_t length) {
    std::memcpy(bytes.data() + offset, &word, length);
  });
}

std::optional<Mismatch> check_pattern(std::span<const std::byte> bytes, const PatternKey& key) {
  std::optional<Mismatch> found;
  for_each_word(bytes.size(), seed_of(key), [&](std::size_t offset, uint64_t word, std::size_t length) {
    if (std::memcmp(bytes.data() + offset, &word, length) != 0) {
      count_differences(bytes.subspan(offset, length), word, offset, found);
    }
  });
  return found;
}

std::optional<Mismatch> check_marked(std::span<const std::byte> bytes, const PatternKey& key, std::byte last) {
  if (bytes.empty()) return std::nullopt;
  auto found = check_pattern(bytes.first(bytes.size() - 1), key);
  if (bytes.back() != last) {
    if (!found) found = Mismatch{bytes.size() - 1, last, bytes.back(), 0};
    ++found->bytes;
  }
  return found;
}

std::string describe(const Mismatch& mismatch, std::string_view what, const PatternKey& key, std::size_t length) {
  return fmt::format("{}, QP {}, iteration {}: offset {} expected {:#04x}, got {:#04x} ({} of {} bytes differ)", what,
                     key.qp, key.iteration, mismatch.offset, static_cast<unsigned>(mismatch.expected),
                     static_cast<unsigned>(mismatch.got), mismatch.bytes, length);
}

AtomicModel::AtomicModel(AtomicType type, const PatternKey& key)
    : type_(type), base_(word_at(seed_of(key), 0)), step_(word_at(seed_of(key), 1) | 1) {}

uint64_t AtomicModel::value(uint64_t n) const { return base_ + step_ * successes(n); }

uint64_t AtomicModel::compare_add(uint64_t n) const {
  if (type_ == AtomicType::fetch_and_add) return step_;
  return misses(n) ? ~value(n) : value(n);
}

uint64_t AtomicModel::swap(uint64_t n) const { return value(n) + step_; }

}  // namespace uroce::perf
