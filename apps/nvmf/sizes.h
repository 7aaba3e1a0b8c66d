// Sizes that the target promises and keeps.
#pragma once

#include <cstdint>

#include "nvmf/nvme.h"

namespace uroce::nvmf {

/// Largest transfer of a command, bytes: MDTS in Identify Controller. The size of each buffer of the pool.
inline constexpr uint32_t kTransferBytes = 128 << 10;
inline constexpr uint8_t kMdts = 5;
static_assert(nvme::kPageBytes << kMdts == kTransferBytes);
/// Data in a capsule, bytes (IOCCSZ). A WRITE of this size needs no RDMA READ.
inline constexpr uint32_t kInCapsuleBytes = 8192;
/// Entries of a queue (MQES + 1).
inline constexpr uint32_t kQueueEntries = 128;
/// Entries of an admin queue (NVMe-oF 1.1, 5.4: at least 32).
inline constexpr uint32_t kAdminEntries = 32;
/// I/O queues of a controller.
inline constexpr uint32_t kIoQueues = 32;
/// Asynchronous Event Requests that a controller keeps (AERL + 1).
inline constexpr uint32_t kAsyncEvents = 4;
/// Controllers of NVM subsystems, and of the discovery subsystem.
inline constexpr uint32_t kIoControllers = 1024;
inline constexpr uint32_t kDiscoveryControllers = 256;
inline constexpr uint32_t kControllers = kIoControllers + kDiscoveryControllers;
/// Discovery controllers of one host: Linux keeps one for each of its ports at most.
inline constexpr uint32_t kHostDiscovery = 16;
/// The largest first id of that many: NVMe over Fabrics reserves ids above 0xffef.
inline constexpr uint16_t kLastFirstId = 0xffef - kControllers + 1;

}  // namespace uroce::nvmf
