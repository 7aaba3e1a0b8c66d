// FLUSH on rxe. The rxe provider of rdma-core 44 has no call for it, and the kernel's part can do it.
#pragma once

#include <cstdint>

#include <infiniband/verbs.h>

namespace interop {

struct Flush {
  std::uint64_t wr_id;
  std::uint64_t address;
  std::uint32_t length;
  std::uint32_t rkey;
  std::uint8_t type;
  std::uint8_t level;
};

/// Posts a signaled FLUSH. `qp` was created with IBV_QP_EX_WITH_RDMA_WRITE. Throws std::runtime_error.
void post_rxe_flush(ibv_qp_ex* qp, const Flush& flush);

}  // namespace interop
