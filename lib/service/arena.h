// Queue memory that a client maps: few, large pieces of sealed memfd. The first, of 2 MiB, is of ordinary pages, which
// the daemon makes present as objects need them: a client with few objects has few pages. Others are of huge pages
// where there are any.
//
// The list of free pieces is in private memory: a client that overwrites its queues cannot confuse the allocator.
//
// A client can punch holes in what it was given. A watch repairs what an engine finds missing, and the arena is
// broken(). Ordinary pages of an ordinary user are guarded (FaultWatch), so the user pays for the wait. Where the
// daemon cannot guard memory, pieces are sealed against holes once the client has mapped them. A daemon that takes over
// could not map sealed pieces.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "control/queue_memory.h"
#include "message/connection.h"
#include "message/protocol.h"
#include "service/fault_watch.h"
#include "service/machine_budget.h"
#include "service/memory_room.h"
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

/// How an arena meets holes that its client punches.
struct ArenaRules {
  bool guard = false;                    ///< an access to a missing ordinary page breaks the arena (FaultWatch::guard)
  bool seal = true;                      ///< pieces are sealed against holes; nobody can map them for writing any more
  std::shared_ptr<EngineWaits> waits{};  ///< where waits for missing pages are noted
};

/// All queue memory of one client. Any thread.
class Arena final : public control::QueueAllocator, public std::enable_shared_from_this<Arena> {
 public:
  /// Charges bytes of queues to a user. Errors: those of allocate().
  using Payer = std::function<Result<Charge>(uint64_t bytes)>;
  /// Asks for memory of the daemon's control group, for as long as it becomes present. Errors: ENOMEM.
  using Space = std::function<Result<MemoryRoom::Hold>(uint64_t bytes)>;
  explicit Arena(Payer payer, Space space = {}, ArenaRules rules = {})
      : payer_(std::move(payer)), space_(std::move(space)), rules_(std::move(rules)) {}

  /// Errors: ENOMEM naming the limit.
  Result<std::unique_ptr<control::QueueMemory>> allocate(std::size_t bytes) override;

  struct NewChunk {
    uint32_t index;
    uint64_t bytes;
    int fd;  ///< the arena's
  };
  /// The pieces made since the last call. The client has mapped those of the last call, since it has sent a request
  /// meanwhile: where the rules say so, they are sealed against new writable mappings and holes (F_SEAL_FUTURE_WRITE,
  /// Linux 5.1).
  std::vector<NewChunk> take_new_chunks();
  /// Whether the client has removed pages.
  bool broken() const;

  // --- For a daemon that takes over, whose arena has the same pieces ---
  /// Whether another daemon can map the pieces: they are not sealed.
  bool can_be_adopted() const { return !rules_.seal; }
  /// All pieces, which the client has.
  std::vector<NewChunk> chunks() const;
  /// Adds the next piece, of another daemon's arena. The caller has not called allocate() yet. Errors: EINVAL (no such
  /// memfd), ENOMEM.
  Result<void> adopt(message::Fd fd, uint64_t bytes);
  /// The next calls of allocate() get these places, with what is in them.
  void expect(std::span<const message::Place> places);

  /// Whether the client has kept a piece from being sealed (F_SEAL_SEAL), so that it can punch holes for ever.
  bool unsealable() const;
  /// Whether the client can remove ordinary pages, so that an access waits for it.
  bool punchable() const;
  uint64_t used() const;

 private:
  friend class ArenaMemory;
  struct Chunk {
    message::Fd fd;
    std::byte* data = nullptr;
    uint64_t bytes = 0;
    bool sealed = false;
    bool unsealable = false;
    bool sparse = false;                // of ordinary pages, present where something was allocated
    std::map<uint64_t, uint64_t> free;  // bytes by offset, never adjacent
    Share mapping;
    std::unique_ptr<FaultWatch> watch;
    Chunk() = default;
    Chunk(Chunk&& other) noexcept;
    Chunk& operator=(Chunk&&) = delete;
    ~Chunk();
  };
  Result<void> add_chunk(std::size_t bytes);
  void add_chunk(message::Fd fd, std::byte* data, uint64_t bytes, bool sparse, Share mapping);
  /// The place that is expected next, of so many bytes. Errors: EINVAL.
  Result<std::unique_ptr<control::QueueMemory>> allocate_expected(std::size_t bytes, Charge charge);
  void give_back(uint32_t chunk, uint64_t offset, std::size_t bytes);

  /// Errors: those of userfaultfd(2).
  Result<void> guard(const Chunk& chunk, uint64_t offset, std::size_t bytes) const;
  /// The bytes become present, guarded, and zeros.
  Result<void> clear(const Chunk& chunk, uint64_t offset, std::size_t bytes) const;

  const Payer payer_;
  const Space space_;
  const ArenaRules rules_;
  mutable std::mutex mutex_;
  std::vector<Chunk> chunks_;
  std::deque<message::Place> expected_;
  std::size_t sent_ = 0;  // chunks that take_new_chunks() has returned
  uint64_t used_ = 0;
};

}  // namespace uroce::service
