// Completions for work that a lost daemon left unfinished. Its engines write no more, so the application's side flushes
// what is still in the shared rings (IBTA vol. 1, 10.3.1.7, as for a queue pair in error).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include <uroce/types.h>
#include <uroce/verbs/completion.h>

#include "queues/ring.h"

namespace uroce::client {

/// A receive that a queue pair held. False when there is none.
bool take_held(queues::HeldRecv& held, Completion& out);

/// A send queue, or a receive queue, shared or not. Any thread.
class AbandonedRing {
 public:
  enum class Holds : uint8_t { sends, receives };

  /// `held`: of an XRC queue, what its targets hold. The memory of both must outlive this.
  AbandonedRing(queues::RingPlace place, Holds holds, std::span<queues::HeldRecv> held = {})
      : place_(place), ring_(place), held_(held), holds_(holds) {}

  /// Takes the oldest request that is posted and not completed. `qpn`: of the completion, where no target holds the
  /// receive. False when there is none.
  bool take(uint32_t qpn, Completion& out);
  /// The queue was resized. The memory of both must outlive this.
  void move(queues::RingPlace place, std::span<queues::HeldRecv> held);

 private:
  queues::RingPlace place_;
  std::mutex mutex_;  // guards all below
  queues::RingConsumer ring_;
  std::span<queues::HeldRecv> held_;
  bool begun_ = false;
  Holds holds_;
};

/// The work queues that complete on one completion queue. Any thread.
class FlushList {
 public:
  /// A queue pair posts to `ring` unless `posts` is RESET. It keeps `posts` until remove(), and `held`, of a queue pair
  /// with a shared receive queue.
  void add(uint32_t qpn, std::atomic<QpState>& posts, std::shared_ptr<AbandonedRing> ring,
           queues::HeldRecv* held = nullptr);
  void remove(uint32_t qpn);
  /// Call it only when the daemon is lost. Ends further posts, and returns the number of completions in `out`. Receives
  /// that queue pairs hold were posted before those in their shared queue, and come first.
  std::size_t take(std::span<Completion> out);

 private:
  struct Entry {
    std::atomic<QpState>* posts;
    std::shared_ptr<AbandonedRing> ring;
    queues::HeldRecv* held;
  };
  std::mutex mutex_;
  std::multimap<uint32_t, Entry> entries_;  // by QPN
};

}  // namespace uroce::client
