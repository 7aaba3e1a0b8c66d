// 128-bit vectors: PCLMULQDQ and SSE4.2.
#include "wire/crc/x86.h"

namespace uroce::wire::crc {
namespace {

struct Sse {
  using Reg = __m128i;
  using Few = Short<Sse>;
  static constexpr std::size_t kBytes = 16;
  static constexpr std::size_t kAccumulators = 8;

  static Reg load(const std::byte* p) { return _mm_loadu_si128(reinterpret_cast<const Reg*>(p)); }
  static void store(std::byte* p, Reg v) { _mm_storeu_si128(reinterpret_cast<Reg*>(p), v); }
  static Reg load_word(const std::byte* p) {
    int32_t word;
    __builtin_memcpy(&word, p, sizeof word);
    return _mm_cvtsi32_si128(word);
  }
  static void store_word(std::byte* p, int32_t word) { __builtin_memcpy(p, &word, sizeof word); }
  static Reg load_half(const std::byte* p) { return _mm_loadl_epi64(reinterpret_cast<const Reg*>(p)); }
  static void store_half(std::byte* p, Reg v) { _mm_storel_epi64(reinterpret_cast<Reg*>(p), v); }

  static Reg load_last(const std::byte* p, std::size_t n) {
    switch (n) {
      case 4: return _mm_slli_si128(load_word(p), 12);
      case 8: return _mm_slli_si128(load_half(p), 8);
      case 12: return _mm_slli_si128(_mm_unpacklo_epi64(load_half(p), load_word(p + 8)), 4);
      default: return load(p);
    }
  }
  static void store_last(std::byte* p, Reg v, std::size_t n) {
    switch (n) {
      case 4: return store_word(p, _mm_extract_epi32(v, 3));
      case 8: return store_half(p, _mm_srli_si128(v, 8));
      case 12: store_half(p, _mm_srli_si128(v, 4)); return store_word(p + 8, _mm_extract_epi32(v, 3));
      default: return store(p, v);
    }
  }
  static Reg value_at_last(uint32_t value, std::size_t n) {
    const Reg mask = _mm_loadu_si128(reinterpret_cast<const Reg*>(kOneWord + 16 - (kBytes - n) / 4));
    return _mm_and_si128(_mm_set1_epi32(static_cast<int32_t>(value)), mask);
  }
  static Reg add(Reg a, Reg b) { return _mm_xor_si128(a, b); }
  static Reg select(Reg v, Reg keep, Reg flip) { return add(_mm_and_si128(v, keep), flip); }
  static Reg multiply(Reg v, Reg k) { return add(_mm_clmulepi64_si128(v, k, 0x00), _mm_clmulepi64_si128(v, k, 0x11)); }
  static Reg fold(Reg v, Reg k, Reg next) { return add(multiply(v, k), next); }
  static Reg broadcast(const uint64_t (&halves)[2]) { return load(reinterpret_cast<const std::byte*>(halves)); }
  static Reg once(Reg v) {
    asm("" : "+x"(v));
    return v;
  }
  static uint32_t reduce(Reg v) { return remainder_of(v); }
};

}  // namespace

constinit const Kernel kPclmulKernel = kernel_of<Sse>("pclmul");

}  // namespace uroce::wire::crc
