// The common part of the kernels for x86. Each compiles it with flags of its own, so that nothing here may have
// external linkage.
#pragma once

#include <immintrin.h>

#include "wire/crc/fold.h"

namespace uroce::wire::crc {

/// The remainder of a reflected 128-bit register that holds a polynomial below x^96, times x^32 (Barrett reduction).
static inline uint32_t remainder_of(__m128i value) {
  const __m128i constants =
      _mm_set_epi64x(static_cast<long long>(kReflectedPolynomial), static_cast<long long>(kBarrett));
  const __m128i quotient = _mm_clmulepi64_si128(value, constants, 0x00);
  const __m128i multiple = _mm_clmulepi64_si128(quotient, constants, 0x10);
  return static_cast<uint32_t>(_mm_extract_epi32(_mm_xor_si128(value, multiple), 2));
}

/// Masks of 32-bit words: a vector that begins at kOneWord + 16 - i has only its word i set, and one that begins at
/// kFirstWords + 16 - i has its first i words set.
alignas(64) static constexpr int32_t kOneWord[32] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1};
alignas(64) static constexpr int32_t kFirstWords[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
/// Indices of words: a vector that begins at kRotation + i brings the word i to the front.
alignas(64) static constexpr int32_t kRotation[32] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15,
                                                      0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

/// Indices of bytes: a vector that begins at kFirstBytes + n brings the first n bytes to the end, behind zeros.
alignas(32) static constexpr uint8_t kFirstBytes[32] = {
    0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80,
    0,    1,    2,    3,    4,    5,    6,    7,    8,    9,    10,   11,   12,   13,   14,   15};

/// The short forms of kernel `V`. A small packet has no more behind the headers that it shares with others.
template <class V>
struct Short {
  static constexpr std::size_t kMost = 32;

  /// 4 to kMost bytes, a multiple of four.
  static uint32_t update_short(uint32_t crc, const std::byte* p, std::size_t n) {
    if (n == 4) return add_word(crc, load<uint32_t>(p));
    if (n < 16) {
      crc = add_half(crc, load<uint64_t>(p));
      return n == 8 ? crc : add_word(crc, load<uint32_t>(p + 8));
    }
    const __m128i first = _mm_xor_si128(vector_at(p), _mm_cvtsi32_si128(static_cast<int32_t>(crc)));
    const auto& to_the_end = kToTheEnd<2>.halves;
    if (n == 16) return remainder_of(multiply(first, to_the_end[1]));
    const __m128i moved = _mm_shuffle_epi8(first, vector_at(kFirstBytes + n - 16));
    const __m128i last = vector_at(p + n - 16);
    return remainder_of(_mm_xor_si128(multiply(moved, to_the_end[0]), multiply(last, to_the_end[1])));
  }
  /// 4 or 8 bytes.
  static uint32_t copy_short(uint32_t crc, std::byte* to, const std::byte* from, std::size_t n) {
    if (n == 4) return add_word(crc, copy<uint32_t>(to, from));
    return add_half(crc, copy<uint64_t>(to, from));
  }

 private:
  // These need no folding: times x^32 they are below x^96.
  static uint32_t add_word(uint32_t crc, uint32_t word) { return add_half(0, uint64_t{word ^ crc} << 32); }
  static uint32_t add_half(uint32_t crc, uint64_t half) {
    return remainder_of(_mm_cvtsi64_si128(static_cast<long long>(half ^ crc)));
  }
  static __m128i multiply(__m128i v, const uint64_t (&halves)[2]) {
    const __m128i k = vector_at(halves);
    return _mm_xor_si128(_mm_clmulepi64_si128(v, k, 0x00), _mm_clmulepi64_si128(v, k, 0x11));
  }
  static __m128i vector_at(const void* p) { return _mm_loadu_si128(static_cast<const __m128i*>(p)); }
  template <class Word>
  static Word load(const std::byte* p) {
    Word word;
    __builtin_memcpy(&word, p, sizeof word);
    return word;
  }
  template <class Word>
  static Word copy(std::byte* to, const std::byte* from) {
    Word word = load<Word>(from);
    asm("" : "+r"(word));  // what was read is not read again
    __builtin_memcpy(to, &word, sizeof word);
    return word;
  }
};

}  // namespace uroce::wire::crc
