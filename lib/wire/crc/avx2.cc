// 256-bit vectors: AVX2 and VPCLMULQDQ.
#include "wire/crc/x86.h"

namespace uroce::wire::crc {
namespace {

struct Avx2 {
  using Reg = __m256i;
  using Few = Short<Avx2>;
  static constexpr std::size_t kBytes = 32;
  static constexpr std::size_t kAccumulators = 4;

  static Reg load(const std::byte* p) { return _mm256_loadu_si256(reinterpret_cast<const Reg*>(p)); }
  static void store(std::byte* p, Reg v) { _mm256_storeu_si256(reinterpret_cast<Reg*>(p), v); }
  static Reg words_of(const int32_t* window) { return _mm256_loadu_si256(reinterpret_cast<const Reg*>(window)); }
  static Reg first_words(std::size_t n) { return words_of(kFirstWords + 16 - n / 4); }
  // The mask begins at the address, and a rotation follows. A masked access that begins before the address takes 150 ns
  // where the page before cannot be used, and applications like to begin their buffers with a page.
  static Reg load_last(const std::byte* p, std::size_t n) {
    if (n == kBytes) return load(p);
    const Reg words = _mm256_maskload_epi32(reinterpret_cast<const int*>(p), first_words(n));
    return _mm256_permutevar8x32_epi32(words, words_of(kRotation + n / 4));
  }
  static void store_last(std::byte* p, Reg v, std::size_t n) {
    if (n == kBytes) return store(p, v);
    const Reg words = _mm256_permutevar8x32_epi32(v, words_of(kRotation + (kBytes - n) / 4));
    _mm256_maskstore_epi32(reinterpret_cast<int*>(p), first_words(n), words);
  }
  static Reg value_at_last(uint32_t value, std::size_t n) {
    const Reg mask = words_of(kOneWord + 16 - (kBytes - n) / 4);
    return _mm256_and_si256(_mm256_set1_epi32(static_cast<int32_t>(value)), mask);
  }
  static Reg add(Reg a, Reg b) { return _mm256_xor_si256(a, b); }
  static Reg select(Reg v, Reg keep, Reg flip) { return add(_mm256_and_si256(v, keep), flip); }
  static Reg multiply(Reg v, Reg k) {
    return add(_mm256_clmulepi64_epi128(v, k, 0x00), _mm256_clmulepi64_epi128(v, k, 0x11));
  }
  static Reg fold(Reg v, Reg k, Reg next) { return add(multiply(v, k), next); }
  static Reg broadcast(const uint64_t (&halves)[2]) {
    return _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(halves)));
  }
  static Reg once(Reg v) {
    asm("" : "+x"(v));
    return v;
  }
  static uint32_t reduce(Reg v) {
    return remainder_of(_mm_xor_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1)));
  }
};

}  // namespace

constinit const Kernel kAvx2Kernel = kernel_of<Avx2>("avx2");

}  // namespace uroce::wire::crc
