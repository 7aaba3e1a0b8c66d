// Queue memory that a client maps: few, large pieces of sealed memfd, in huge pages where there are any.
//
// The list of free pieces is in private memory: a client that overwrites its queues cannot confuse the allocator.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "control/queue_memory.h"
#include "message/connection.h"
#include "service/user.h"

namespace uroce::service {

class Arena;

/// One object's queues inside an arena.
class ArenaMemory final : public control::QueueMemory {
 public:
  ArenaMemory(std::shared_ptr<Arena> arena, uint32_t chunk, uint64_t offset, std::byte* data, std::size_t size,
              Charge charge);
  ~ArenaMemory() override;
  uint32_t chunk() const { return chunk_; }
  uint64_t offset() const { return offset_; }

 private:
  std::shared_ptr<Arena> arena_;
  uint32_t chunk_;
  uint64_t offset_;
  Charge charge_;
};

/// All queue memory of one client. Any thread.
class Arena final : public control::QueueAllocator, public std::enable_shared_from_this<Arena> {
 public:
  /// Charges bytes of queues to a user. Errors: those of allocate().
  using Payer = std::function<Result<Charge>(uint64_t bytes)>;
  explicit Arena(Payer payer) : payer_(std::move(payer)) {}

  /// Errors: ENOMEM naming the limit.
  Result<std::unique_ptr<control::QueueMemory>> allocate(std::size_t bytes) override;

  struct NewChunk {
    uint32_t index;
    uint64_t bytes;
    int fd;  ///< the arena's
  };
  /// The pieces made since the last call.
  std::vector<NewChunk> take_new_chunks();
  uint64_t used() const;

 private:
  friend class ArenaMemory;
  struct Chunk {
    message::Fd fd;
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    std::map<uint64_t, uint64_t> free;  // bytes by offset, never adjacent
    Chunk() = default;
    Chunk(Chunk&& other) noexcept;
    Chunk& operator=(Chunk&&) = delete;
    ~Chunk();
  };
  Result<void> add_chunk(std::size_t bytes);
  void give_back(uint32_t chunk, uint64_t offset, std::size_t bytes);

  const Payer payer_;
  mutable std::mutex mutex_;
  std::vector<Chunk> chunks_;
  std::size_t sent_ = 0;  // chunks that take_new_chunks() has returned
  uint64_t used_ = 0;
};

}  // namespace uroce::service
