// The consequence for a queue pair of a completion that was written, or could not be.
#pragma once

#include "transport/core/context.h"
#include "transport/qp/cq_writer.h"
#include "transport/qp/outcome.h"

namespace uroce::transport {

inline Outcome outcome_of(const Context& ctx, CqWriter::Written written) {
  if (written == CqWriter::Written::yes) [[likely]]
    return {};
  if (written == CqWriter::Written::overrun) return Outcome::fail(Failure::cq_overrun);
  ctx.counters.completions_dropped.add();
  return {};
}

}  // namespace uroce::transport
