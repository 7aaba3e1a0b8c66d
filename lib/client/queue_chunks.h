// The pieces of a device's queue memory, which come with replies of the daemon.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <uroce/error.h>

#include "message/connection.h"
#include "message/protocol.h"

namespace uroce::client {

/// The lock of the program's connection guards it.
class QueueChunks {
 public:
  QueueChunks();
  ~QueueChunks();
  QueueChunks(const QueueChunks&) = delete;
  QueueChunks& operator=(const QueueChunks&) = delete;

  /// Errors: EPROTO (not the next chunk), ENOMEM.
  Result<void> map(const message::Chunk& chunk, const message::Fd& fd);
  /// The address of an object's queues in this process; nullptr where the daemon sent no such memory.
  std::byte* at(const message::Place& place) const;

  /// Whether the address is of any queue memory of this process or, in a child of fork(), of its parent. Takes no lock:
  /// for the only thread of a child.
  static bool held_by_any(const void* address);

 private:
  struct Mapped {
    std::byte* data;
    uint64_t bytes;
  };
  std::vector<Mapped> chunks_;
};

}  // namespace uroce::client
