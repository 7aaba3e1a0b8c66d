// The way to send for engines of a port with fewer queues than engines: through the queue of engine 0's worker.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>

#include <uroce/error.h>

#include "pmd_glue/sink.h"
#include "pmd_glue/waker.h"

struct rte_ring;

namespace uroce::glue {

class SharedQueue {
 public:
  /// Errors: ENOMEM.
  static Result<std::unique_ptr<SharedQueue>> make(const std::string& name, int socket);
  ~SharedQueue();
  SharedQueue(const SharedQueue&) = delete;
  SharedQueue& operator=(const SharedQueue&) = delete;

  /// Any engine's thread. Takes a prefix of the frames and returns its length.
  uint16_t put(std::span<rte_mbuf*> mbufs);
  /// The thread that owns `path`: passes waiting frames on. True when any moved.
  bool drain(TxPath& path);
  bool empty() const;

 private:
  SharedQueue() = default;
  static constexpr std::size_t kBurst = 32;
  rte_ring* ring_ = nullptr;
  std::size_t pending_ = 0;
  std::array<rte_mbuf*, kBurst> burst_{};
};

/// An engine's end of a SharedQueue.
class SharedPath final : public TxPath {
 public:
  SharedPath(SharedQueue& queue, Waker& owner) : queue_(queue), owner_(owner) {}
  uint16_t push(std::span<rte_mbuf*> mbufs) override {
    const uint16_t taken = queue_.put(mbufs);
    if (taken != 0) owner_.wake();
    return taken;
  }

 private:
  SharedQueue& queue_;
  Waker& owner_;
};

}  // namespace uroce::glue
