// Places payload in the memory of a scatter list.
#pragma once

#include <span>

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Places `payload` at byte `offset` of a scatter list. Local length error: it does not fit.
/// Local protection error: a key or bound is wrong.
WcStatus scatter(const Context& ctx, const Qp& qp, std::span<const Sge> sges, uint64_t offset,
                 std::span<const std::byte> payload);

}  // namespace uroce::transport
