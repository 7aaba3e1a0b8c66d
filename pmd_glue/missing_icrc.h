// Frames that go from one thread of this process to another in buffers: their ICRC is left out, and a flag of the
// buffer says so. Only this process sets the flag. A driver may leave it in a buffer, so it means nothing where frames
// come from outside.
#pragma once

#include <cstdint>

struct rte_mbuf;

namespace uroce::glue {

/// The flag, in rte_mbuf::ol_flags. 0: DPDK has none left, so that every frame needs its ICRC. EAL has started.
uint64_t missing_icrc_flag();
/// Computes the missing ICRC of a frame of one segment, for somebody who sees it. Nobody else uses the buffer.
void fill_in_icrc(rte_mbuf& mbuf);

}  // namespace uroce::glue
