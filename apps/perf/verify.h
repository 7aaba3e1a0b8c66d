// Patterns that make every byte of every message checkable, and the arithmetic that atomics must have obeyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "perf/options.h"

namespace uroce::perf {

/// Which message a pattern belongs to. Two keys that differ give bytes that differ almost everywhere.
struct PatternKey {
  uint32_t direction = 0;  ///< 0: the client's memory, 1: the server's
  uint32_t qp = 0;
  uint64_t iteration = 0;
};

/// Writes the pattern over `bytes`. The same key and length give the same bytes in every process.
void fill_pattern(std::span<std::byte> bytes, const PatternKey& key);

/// Where a message differs from its pattern.
struct Mismatch {
  std::size_t offset = 0;  ///< of the first byte that differs
  std::byte expected{};
  std::byte got{};
  std::size_t bytes = 0;  ///< how many differ in all
};
std::optional<Mismatch> check_pattern(std::span<const std::byte> bytes, const PatternKey& key);

/// The pattern but for its last byte, which is `last`: the mark that a ping-pong by polling waits for.
std::optional<Mismatch> check_marked(std::span<const std::byte> bytes, const PatternKey& key, std::byte last);

/// "WRITE, QP 3, iteration 17: offset 4096 expected 0x3a, got 0x00 (12 bytes of 65536 differ)".
std::string describe(const Mismatch& mismatch, std::string_view what, const PatternKey& key, std::size_t length);

/// The run of one 8-byte word under atomics. What each must find there follows from how many went before.
class AtomicModel {
 public:
  AtomicModel(AtomicType type, const PatternKey& key);
  /// The word after `n` atomics.
  uint64_t value(uint64_t n) const;
  /// Operands of the `n`th atomic, from 0: the addend, or the value compared with and the value to be stored.
  uint64_t compare_add(uint64_t n) const;
  uint64_t swap(uint64_t n) const;
  /// Every eighth CMP_AND_SWAP compares with a wrong value and must leave the word alone.
  static bool misses(uint64_t n) { return n % 8 == 7; }

 private:
  uint64_t successes(uint64_t n) const { return type_ == AtomicType::cmp_and_swap ? n - n / 8 : n; }

  AtomicType type_;
  uint64_t base_;
  uint64_t step_;
};

}  // namespace uroce::perf
