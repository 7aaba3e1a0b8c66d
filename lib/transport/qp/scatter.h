// Placing payload in the memory that a scatter list names.
#pragma once

#include <span>

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

/// Places `payload` at byte `offset` of a scatter list. Local length or protection error where it does not fit.
WcStatus scatter(const Context& ctx, const Qp& qp, std::span<const Sge> sges, uint64_t offset,
                 std::span<const std::byte> payload);

}  // namespace uroce::transport
