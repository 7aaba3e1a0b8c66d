// 128-bit vectors of aarch64: PMULL, and the CRC instructions for the remainder.
#include <arm_acle.h>
#include <arm_neon.h>

#include "wire/crc/fold.h"

namespace uroce::wire::crc {
namespace {

struct Neon {
  using Reg = uint8x16_t;
  static constexpr std::size_t kBytes = 16;
  static constexpr std::size_t kAccumulators = 8;

  static Reg load(const std::byte* p) { return vld1q_u8(reinterpret_cast<const uint8_t*>(p)); }
  static void store(std::byte* p, Reg v) { vst1q_u8(reinterpret_cast<uint8_t*>(p), v); }
  static Reg load_last(const std::byte* p, std::size_t n) {
    if (n == kBytes) return load(p);
    uint32_t words[4] = {};
    for (std::size_t i = 4 - n / 4; i < 4; ++i, p += 4) __builtin_memcpy(&words[i], p, 4);
    return vreinterpretq_u8_u32(vld1q_u32(words));
  }
  static void store_last(std::byte* p, Reg v, std::size_t n) {
    if (n == kBytes) return store(p, v);
    uint32_t words[4];
    vst1q_u32(words, vreinterpretq_u32_u8(v));
    __builtin_memcpy(p, &words[4 - n / 4], n);
  }
  static Reg value_at_last(uint32_t value, std::size_t n) {
    uint32_t words[4] = {};
    words[4 - n / 4] = value;
    return vreinterpretq_u8_u32(vld1q_u32(words));
  }
  static Reg add(Reg a, Reg b) { return veorq_u8(a, b); }
  static Reg select(Reg v, Reg keep, Reg flip) { return veorq_u8(vandq_u8(v, keep), flip); }
  static Reg multiply(Reg v, Reg k) {
    const poly64x2_t a = vreinterpretq_p64_u8(v), b = vreinterpretq_p64_u8(k);
    const poly128_t low = vmull_p64(vgetq_lane_p64(a, 0), vgetq_lane_p64(b, 0));
    return add(vreinterpretq_u8_p128(low), vreinterpretq_u8_p128(vmull_high_p64(a, b)));
  }
  static Reg fold(Reg v, Reg k, Reg next) { return add(multiply(v, k), next); }
  static Reg broadcast(const uint64_t (&halves)[2]) { return vreinterpretq_u8_u64(vld1q_u64(halves)); }
  static Reg once(Reg v) {
    asm("" : "+w"(v));
    return v;
  }
  /// The 96 bits are a polynomial, times x^32. A CRC instruction takes 64 or 32 bits and multiplies by x^32 modulo P:
  /// the first 64 bits make the register, into which the last 32 go without a multiplication.
  static uint32_t reduce(Reg v) {
    const uint64x2_t halves = vreinterpretq_u64_u8(v);
    return __crc32d(0, vgetq_lane_u64(halves, 0)) ^ static_cast<uint32_t>(vgetq_lane_u64(halves, 1));
  }
};

}  // namespace

constinit const Kernel kPmullKernel = kernel_of<Neon>("pmull");

}  // namespace uroce::wire::crc
