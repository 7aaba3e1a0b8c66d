// Limits of one client.
#pragma once

#include <cstdint>

namespace uroce::service {

/// The most objects and bytes of one client at once. Beyond a limit, a call fails with ENOMEM and names it.
struct ClientLimits {
  uint32_t max_qp = 16384;
  uint32_t max_cq = 16384;
  uint32_t max_srq = 1024;
  uint32_t max_mr = 65536;
  uint32_t max_pd = 4096;
  uint32_t max_ah = 65536;
  uint32_t max_cm_id = 65536;
  uint64_t max_queue_bytes = uint64_t{4} << 30;       ///< memory of all queues
  uint64_t max_registered_bytes = uint64_t{1} << 40;  ///< registered memory, mapped by the daemon
  bool file_memory = false;                           ///< files of local disks may be registered
};

}  // namespace uroce::service
