// The duration of a QP's attribute `timeout` (IBTA vol. 1, 9.7.6.1.3).
#pragma once

#include <cstdint>

#include "base/time.h"

namespace uroce::transport {

/// 4.096 us * 2^code. Code 0 never times out.
constexpr Nanos ack_timeout(uint8_t code) { return code == 0 ? kNever : Nanos(int64_t{4096} << (code & 0x1f)); }
static_assert(ack_timeout(14) == Nanos(67'108'864));

}  // namespace uroce::transport
