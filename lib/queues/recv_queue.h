// The application's end of a receive queue, shared or not. It takes no locks and allocates nothing. One thread at a
// time.
#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <uroce/types.h>
#include <uroce/verbs/work_requests.h>

#include "queues/ring.h"

namespace uroce::queues {

class RecvQueue {
 public:
  RecvQueue() = default;
  RecvQueue(RingPlace ring, uint32_t max_sge) : producer_(ring), header_(ring.header), max_sge_(max_sge) {}

  /// Returns 0, ENOMEM (full) or EINVAL (too many entries). Needs no doorbell, because the engine reads the queue when
  /// it needs a receive; but see wants_doorbell().
  int post(const RecvRequest& request) {
    if (request.sges.size() > max_sge_) return EINVAL;
    if (room_ == 0) room_ = producer_.room();
    if (room_ == 0) return ENOMEM;
    std::byte* slot = producer_.slot();
    auto& wqe = *reinterpret_cast<RecvWqe*>(slot);
    wqe.wr_id = request.wr_id;
    wqe.num_sge = static_cast<uint32_t>(request.sges.size());
    wqe.reserved = 0;
    auto* sges = reinterpret_cast<Sge*>(slot + sizeof(RecvWqe));
    for (std::size_t i = 0; i < request.sges.size(); ++i) sges[i] = request.sges[i];
    producer_.publish(1);
    --room_;
    return 0;
  }
  /// Goes on at `ring`, to which the engine has moved the receives. Same number of entries in each.
  void move(RingPlace ring) {
    producer_ = RingProducer::at_moved(ring);
    header_ = ring.header;
    room_ = 0;
  }
  /// Call it after post(). True while the queue pair is in error: the engine then needs a doorbell to flush the posts.
  bool wants_doorbell() const {
    // The engine sets the flag and then reads the ring. This side has published and now reads the flag. One of them
    // always sees the other's store.
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return header_->wants_doorbell.load(std::memory_order_relaxed) != 0;
  }

 private:
  RingProducer producer_;
  const RingHeader* header_ = nullptr;
  uint32_t room_ = 0;  // slots known to be free
  uint32_t max_sge_ = 0;
};

}  // namespace uroce::queues
