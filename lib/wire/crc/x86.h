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

}  // namespace uroce::wire::crc
