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

/// Masks of 32-bit words: a vector that begins at kFirstWord + 16 - i has only its word i set, and one that begins at
/// kLastWords + 16 - i has word i and all after it set.
alignas(64) static constexpr int32_t kFirstWord[32] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -1};
alignas(64) static constexpr int32_t kLastWords[32] = {0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,
                                                       -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};

}  // namespace uroce::wire::crc
