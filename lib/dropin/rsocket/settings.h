// The initial settings of rsockets, from the files in /etc/rdma/rsocket (rsocket(7)).
#pragma once

#include <chrono>
#include <cstdint>

namespace uroce::dropin::rsocket {

/// A stream can send when it has room for this many bytes; also the size of a datagram's buffer.
inline constexpr uint32_t kLowWater = 2048;
/// Bounds of a queue's size.
inline constexpr uint32_t kQueueMin = 16;
inline constexpr uint32_t kQueueMax = 0xfffe;

struct Settings {
  uint32_t mappings = 0;                             ///< iomap_size: entries of the table of mapped buffers
  uint32_t inline_bytes = 64;                        ///< inline_default
  uint32_t send_queue = 384;                         ///< sqsize_default: work requests
  uint32_t receive_queue = 384;                      ///< rqsize_default: work requests
  uint32_t receive_bytes = 1 << 17;                  ///< mem_default
  uint32_t send_bytes = 1 << 17;                     ///< wmem_default
  std::chrono::microseconds polling_time{10};        ///< polling_time: a call polls this long before it sleeps
  std::chrono::milliseconds wake_up_interval{5000};  ///< wake_up_interval: rpoll() checks again after this time
};

/// Read once per process.
const Settings& settings();

}  // namespace uroce::dropin::rsocket
