// The two code tables of the AETH syndrome: end-to-end credits and RNR timers (IBTA vol. 1, tables 45 to 47).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "base/time.h"

namespace uroce::transport {

inline constexpr std::array<uint16_t, 31> kCredits{0,    1,    2,    3,    4,    6,     8,     12,    16,   24,   32,
                                                   48,   64,   96,   128,  192,  256,   384,   512,   768,  1024, 1536,
                                                   2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768};

/// Receives that a credit code grants; code 0..30.
constexpr uint32_t credits_of(uint8_t code) { return kCredits[code]; }

/// The largest code that grants at most `receives`.
constexpr uint8_t credit_code(uint32_t receives) {
  const auto after = std::upper_bound(kCredits.begin(), kCredits.end(), receives);
  return static_cast<uint8_t>(after - kCredits.begin() - 1);
}
static_assert(credit_code(0) == 0 && credit_code(5) == 4 && credit_code(64) == 12 && credit_code(1u << 20) == 30);

/// RNR timer codes in units of 10 us; code 0 is the longest.
inline constexpr std::array<uint32_t, 32> kRnrTimer{
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr Nanos rnr_delay(uint8_t code) { return Nanos(int64_t{kRnrTimer[code & 0x1f]} * 10'000); }
static_assert(rnr_delay(1) == Nanos(10'000) && rnr_delay(31) == Nanos(491'520'000));

/// The ACK timeout of a QP attribute: 4.096 us * 2^code (IBTA vol. 1, 9.7.6.1.3). Code 0 never times out.
constexpr Nanos ack_timeout(uint8_t code) { return code == 0 ? kNever : Nanos(int64_t{4096} << (code & 0x1f)); }

}  // namespace uroce::transport
