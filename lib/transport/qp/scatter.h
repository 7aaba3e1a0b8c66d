// Places payload in the memory of a scatter list.
#pragma once

#include <span>

#include "memory/region_table.h"
#include "transport/core/context.h"

namespace uroce::transport {

/// Places `payload` at byte `offset` of a scatter list. Local length error: it does not fit.
/// Local protection error: a key or bound is wrong, or the memory is not of domain `pd`.
WcStatus scatter(const Context& ctx, memory::PdId pd, std::span<const Sge> sges, uint64_t offset,
                 std::span<const std::byte> payload);

}  // namespace uroce::transport
