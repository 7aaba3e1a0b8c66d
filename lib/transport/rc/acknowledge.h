// ACKs and NAKs at the requester, plain and selective (IBTA vol. 1, 9.7.5).
#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"
#include "transport/core/context.h"
#include "transport/qp/outcome.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

Outcome on_ack(Context& ctx, Qp& qp, const wire::Packet& packet);
Outcome on_sack(Context& ctx, Qp& qp, const wire::Packet& packet);

// --- How long an RNR NAK asks the requester to wait (IBTA vol. 1, 9.7.5.2.8) ------------------------------------

/// In units of 10 us, by the timer code of an AETH. Code 0 is the longest.
inline constexpr std::array<uint32_t, 32> kRnrTimer{
    65536, 1,   2,   3,   4,    6,    8,    12,   16,   24,   32,   48,    64,    96,    128,   192,
    256,   384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

constexpr Nanos rnr_delay(uint8_t code) { return Nanos(int64_t{kRnrTimer[code & 0x1f]} * 10'000); }
static_assert(rnr_delay(1) == Nanos(10'000) && rnr_delay(31) == Nanos(491'520'000));

}  // namespace uroce::transport
