// 512-bit vectors: AVX-512F and VPCLMULQDQ.
#include "wire/crc/x86.h"

namespace uroce::wire::crc {
namespace {

struct Avx512 {
  using Reg = __m512i;
  using Few = Short<Avx512>;
  static constexpr std::size_t kBytes = 64;
  static constexpr std::size_t kAccumulators = 4;

  static Reg load(const std::byte* p) { return _mm512_loadu_si512(p); }
  static void store(std::byte* p, Reg v) { _mm512_storeu_si512(p, v); }
  static __mmask16 first_words(std::size_t n) { return static_cast<__mmask16>((1u << n / 4) - 1); }
  static Reg rotate(Reg v, std::size_t words) {
    return _mm512_permutexvar_epi32(_mm512_loadu_si512(kRotation + words), v);
  }
  // The mask begins at the address, and a rotation follows. A masked access that begins before the address takes 150 ns
  // where the page before cannot be used, and applications like to begin their buffers with a page.
  static Reg load_last(const std::byte* p, std::size_t n) {
    if (n == kBytes) return load(p);
    return rotate(_mm512_maskz_loadu_epi32(first_words(n), p), n / 4);
  }
  static void store_last(std::byte* p, Reg v, std::size_t n) {
    if (n == kBytes) return store(p, v);
    _mm512_mask_storeu_epi32(p, first_words(n), rotate(v, (kBytes - n) / 4));
  }
  static Reg value_at_last(uint32_t value, std::size_t n) {
    const auto first_word = static_cast<__mmask16>(1u << (kBytes - n) / 4);
    return _mm512_maskz_set1_epi32(first_word, static_cast<int32_t>(value));
  }
  static Reg add(Reg a, Reg b) { return _mm512_xor_si512(a, b); }
  static Reg select(Reg v, Reg keep, Reg flip) { return _mm512_ternarylogic_epi64(v, keep, flip, kAndXor); }
  static Reg multiply(Reg v, Reg k) {
    return add(_mm512_clmulepi64_epi128(v, k, 0x00), _mm512_clmulepi64_epi128(v, k, 0x11));
  }
  static Reg fold(Reg v, Reg k, Reg next) {
    return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(v, k, 0x00), _mm512_clmulepi64_epi128(v, k, 0x11), next,
                                     kXorOfThree);
  }
  static Reg broadcast(const uint64_t (&halves)[2]) {
    return _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
  }
  static Reg once(Reg v) {
    asm("" : "+v"(v));
    return v;
  }
  static uint32_t reduce(Reg v) {
    const __m256i half = _mm256_xor_si256(_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64(v, 1));
    return remainder_of(_mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256(half, 1)));
  }

 private:
  // Truth tables of VPTERNLOG: the operands are 0xf0, 0xcc and 0xaa.
  static constexpr int kXorOfThree = 0xf0 ^ 0xcc ^ 0xaa;
  static constexpr int kAndXor = (0xf0 & 0xcc) ^ 0xaa;
};

}  // namespace

constinit const Kernel kAvx512Kernel = kernel_of<Avx512>("avx512");

}  // namespace uroce::wire::crc
