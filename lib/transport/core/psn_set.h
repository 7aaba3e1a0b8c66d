// A set of PSNs that lie within one window: a circular bitmap.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/psn.h"

namespace uroce::transport {

/// PSNs within a moving range of kSize. The user removes the PSNs that the range leaves behind.
class PsnSet {
 public:
  static constexpr uint32_t kSize = 1024;

  bool has(Psn psn) const { return (words_[word(psn)] >> bit(psn) & 1) != 0; }
  void add(Psn psn) { words_[word(psn)] |= uint64_t{1} << bit(psn); }
  void remove(Psn psn) { words_[word(psn)] &= ~(uint64_t{1} << bit(psn)); }
  void clear() { words_ = {}; }
  bool empty() const {
    uint64_t any = 0;
    for (const uint64_t w : words_) any |= w;
    return any == 0;
  }
  uint32_t count() const {
    uint32_t n = 0;
    for (const uint64_t w : words_) n += static_cast<uint32_t>(std::popcount(w));
    return n;
  }
  /// Takes out [from, from + n).
  void remove_from(Psn from, uint32_t n) {
    if (n >= kSize) return clear();
    while (n > 0) {
      const uint32_t step = std::min(n, 64 - bit(from));
      words_[word(from)] &= ~(mask(step) << bit(from));
      from += step;
      n -= step;
    }
  }
  /// The distance from `from` to the next PSN in the set, or with `in` false to the next one that is not in it. `n`:
  /// none of the `n` PSNs from `from` on is. `n` is at most kSize.
  uint32_t next(Psn from, uint32_t n, bool in = true) const {
    for (uint32_t at = 0; at < n;) {
      const uint64_t w = (in ? words_[word(from)] : ~words_[word(from)]) >> bit(from);
      if (w != 0) return std::min(n, at + static_cast<uint32_t>(std::countr_zero(w)));
      const uint32_t step = 64 - bit(from);
      at += step;
      from += step;
    }
    return n;
  }
  /// The 64 bits from `from` on, the lowest first.
  uint64_t bits_from(Psn from) const {
    const uint32_t shift = bit(from);
    const uint64_t low = words_[word(from)] >> shift;
    return shift == 0 ? low : low | words_[word(from + 64)] << (64 - shift);
  }

  template <class Archive>
  void persist(Archive& archive) {
    auto& [words] = *this;
    archive("words", words);
  }

 private:
  static uint32_t word(Psn psn) { return (psn.value() & (kSize - 1)) / 64; }
  static uint32_t bit(Psn psn) { return psn.value() % 64; }
  static uint64_t mask(uint32_t n) { return n == 64 ? ~uint64_t{0} : (uint64_t{1} << n) - 1; }
  std::array<uint64_t, kSize / 64> words_{};
};

}  // namespace uroce::transport
