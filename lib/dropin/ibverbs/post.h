// Posting work requests (ibv_post_send(3), ibv_post_recv(3)).
#pragma once

#include <mutex>
#include <span>

#include "dropin/ibverbs/objects.h"
#include "dropin/ibverbs/on_demand.h"

namespace uroce::dropin {

static_assert(sizeof(Sge) == sizeof(ibv_sge) && offsetof(Sge, length) == offsetof(ibv_sge, length) &&
              offsetof(Sge, lkey) == offsetof(ibv_sge, lkey));

inline std::span<const Sge> as_sges(const ibv_sge* list, std::size_t count) {
  return {reinterpret_cast<const Sge*>(list), count};
}

/// Devices ignore the bits of a datagram's destination above the 24 of a QPN; programs pack other things there.
inline constexpr uint32_t kQpnMask = 0xffffff;

int post_send(ibv_qp* qp, ibv_send_wr* wr, ibv_send_wr** bad);
int post_recv(ibv_qp* qp, ibv_recv_wr* wr, ibv_recv_wr** bad);

/// Posts a list to a queue pair or a shared receive queue, up to the first that fails.
template <class Queue>
int post_receives(Queue& queue, Spinlock& lock, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  const std::lock_guard guard(lock);
  for (; wr != nullptr; wr = wr->next) {
    const int error = wr->num_sge < 0
                          ? EINVAL
                          : queue.post_recv({wr->wr_id, as_sges(wr->sg_list, static_cast<std::size_t>(wr->num_sge))});
    if (error != 0) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

/// The same, with keys that may be of implicit regions.
template <class Queue>
int post_resolved_receives(Queue& queue, Spinlock& lock, SharedContext& shared, ibv_recv_wr* wr, ibv_recv_wr** bad) {
  for (; wr != nullptr; wr = wr->next) {
    ResolvedSges resolved;
    int error = wr->num_sge < 0 ? EINVAL
                                : resolved.resolve(shared, as_sges(wr->sg_list, static_cast<std::size_t>(wr->num_sge)));
    if (error == 0) {
      const std::lock_guard guard(lock);
      error = queue.post_recv({wr->wr_id, resolved.get()});
    }
    if (error != 0) {
      *bad = wr;
      return error;
    }
  }
  return 0;
}

}  // namespace uroce::dropin
