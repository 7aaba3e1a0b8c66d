// The doorbell rings of one session, by engine.
//
// A ring with room for each queue pair of the device has 128 KiB by default. Most sessions have few queue pairs. So
// each engine gets a small ring when the session opens, and a large one besides once the session has many queue pairs
// there.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <uroce/error.h>

#include "control/queue_memory.h"
#include "queues/doorbell.h"

namespace uroce::control {

/// With the control lock held once the session is open, except where a member says otherwise.
class SessionDoorbells {
 public:
  /// The ring of a queue pair. It does not own the memory.
  struct Ring {
    std::byte* data = nullptr;
    uint32_t entries = 0;
    const QueueMemory* large = nullptr;  ///< its memory; nullptr for an engine's small ring, a part of small_rings()

    queues::DoorbellPoster poster() const { return {data, entries}; }
    queues::DoorbellReader reader(uint32_t position = 0) const { return {data, entries, position}; }
  };

  /// Small rings for a device with that many engines. Errors: ENOMEM.
  static Result<SessionDoorbells> create(QueueAllocator& allocator, uint32_t max_qp, uint32_t engines);

  // These do not change. Any thread.
  const QueueMemory& small_rings() const { return *small_; }
  uint32_t small_entries() const { return small_entries_; }
  Ring small_ring(uint32_t engine) const;
  std::size_t large_bytes() const { return queues::doorbell_bytes(large_entries_); }

  /// A ring for one more queue pair, until give_back(). nullopt: the engine has a small ring only, and that is full.
  std::optional<Ring> take(uint32_t engine);
  /// The ring that the queue pair has with another daemon. nullopt: there is none.
  std::optional<Ring> take(uint32_t engine, bool large);
  void give_back(uint32_t engine, const Ring& ring);
  /// The engine's large ring, in `memory` of large_bytes(). take() then always succeeds.
  Ring add_large(uint32_t engine, std::unique_ptr<QueueMemory> memory);
  /// The engine never polled it.
  void remove_large(uint32_t engine) { engines_[engine].large.reset(); }
  /// The memory of the engine's large ring; nullptr: it has none.
  const QueueMemory* large(uint32_t engine) const { return engines_[engine].large.get(); }
  /// All memory, for an engine that may still poll it.
  std::vector<std::unique_ptr<QueueMemory>> release();

 private:
  struct OfEngine {
    uint32_t on_small = 0;  // queue pairs
    std::unique_ptr<QueueMemory> large;
  };
  SessionDoorbells(std::unique_ptr<QueueMemory> small, uint32_t small_entries, uint32_t large_entries, uint32_t engines)
      : small_(std::move(small)), small_entries_(small_entries), large_entries_(large_entries), engines_(engines) {}
  Ring large_ring(uint32_t engine) const;

  std::unique_ptr<QueueMemory> small_;
  uint32_t small_entries_;
  uint32_t large_entries_;
  std::vector<OfEngine> engines_;
};

}  // namespace uroce::control
