// The values of a rule's words: numbers with units and bounds.
#pragma once

#include <cstdint>
#include <string_view>

#include <uroce/error.h>

#include "base/time.h"
#include "faults/rule.h"

namespace uroce::faults {

/// Decimal or 0x hexadecimal. Errors: EINVAL with the bounds.
Result<uint64_t> read_number(std::string_view text, uint64_t least, uint64_t most);
/// "5", or "5-9". Errors: as above; EINVAL where the end lies before the beginning, unless it may `wrap`.
Result<Span<uint64_t>> read_range(std::string_view text, uint64_t least, uint64_t most, bool wrap = false);
/// "10us", "2.5ms": up to 60 s. Errors: EINVAL.
Result<Nanos> read_time(std::string_view text);
/// "1Gbit", "2.5Mbit": bits a second. Errors: EINVAL.
Result<uint64_t> read_rate(std::string_view text);
/// More than 0, at most 1. Errors: EINVAL.
Result<double> read_probability(std::string_view text);

}  // namespace uroce::faults
