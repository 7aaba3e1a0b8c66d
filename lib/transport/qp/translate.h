// A queue pair's view of registered memory: keys and bounds are checked for its domain and its number.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/qp.h"

namespace uroce::transport {

inline memory::Translation translate(const Context& ctx, const Qp& qp, uint32_t key, uint64_t address, uint64_t length,
                                     AccessFlags needed) {
  return ctx.regions.translate(key, qp.pd, address, length, needed, qp.qpn);
}

}  // namespace uroce::transport
