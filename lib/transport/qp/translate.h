// Look-up of registered memory for a queue pair: checks key and bounds for its protection domain and its QPN.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

inline memory::Translation translate(const Context& ctx, const Qp& qp, uint32_t key, uint64_t address, uint64_t length,
                                     AccessFlags needed) {
  return ctx.regions.translate(key, qp.pd, address, length, needed, qp.qpn);
}

}  // namespace uroce::transport
