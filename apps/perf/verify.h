// Patterns that make every byte of every message checkable, and the results that atomics must have.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "perf/options.h"

namespace uroce::perf {

/// The message that a pattern belongs to. Different keys give bytes that differ almost everywhere.
struct PatternKey {
  uint32_t direction = 0;  ///< 0: the client's memory, 1: the server's
  uint32_t qp = 0;
  uint64_t iteration = 0;
};

/// Writes the pattern over `bytes`. The same key and length give the same bytes in every process.
void fill_pattern(std::span<std::byte> bytes, const PatternKey& key);

/// The difference between a message and its pattern.
struct Mismatch {
  std::size_t offset = 0;  ///< first byte that differs
  std::byte expected{};
  std::byte got{};
  std::size_t bytes = 0;  ///< total number of bytes that differ
};
std::optional<Mismatch> check_pattern(std::span<const std::byte> bytes, const PatternKey& key);

/// Writes the pattern with `last` as its last byte: the mark that a ping-pong by polling waits for.
std::optional<Mismatch> check_marked(std::span<const std::byte> bytes, const PatternKey& key, std::byte last);

/// "WRITE, QP 3, iteration 17: offset 4096 expected 0x3a, got 0x00 (12 bytes of 65536 differ)".
std::string describe(const Mismatch& mismatch, std::string_view what, const PatternKey& key, std::size_t length);

/// One 8-byte word under atomics. The value that each atomic must find follows from the number of atomics before it.
class AtomicModel {
 public:
  AtomicModel(AtomicType type, const PatternKey& key);
  /// The word after `n` atomics.
  uint64_t value(uint64_t n) const;
  /// Operands of atomic `n`, from 0: the addend, or the value to compare with and the value to store.
  uint64_t compare_add(uint64_t n) const;
  uint64_t swap(uint64_t n) const;
  /// Every eighth CMP_AND_SWAP compares with a wrong value and must not change the word.
  static bool misses(uint64_t n) { return n % 8 == 7; }

 private:
  uint64_t successes(uint64_t n) const { return type_ == AtomicType::cmp_and_swap ? n - n / 8 : n; }

  AtomicType type_;
  uint64_t base_;
  uint64_t step_;
};

}  // namespace uroce::perf
