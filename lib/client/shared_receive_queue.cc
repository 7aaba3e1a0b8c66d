#include "client/shared_receive_queue.h"

#include <cerrno>
#include <string>

#include <uroce/verbs/shared_receive_queue.h>

namespace uroce {

namespace client {

Result<void> SrqImpl::set_limit(uint32_t limit) {
  if (limit > max_wr()) {
    return fail(EINVAL, "the limit of a shared receive queue is at most its max_wr, " + std::to_string(max_wr()) +
                            "; got " + std::to_string(limit));
  }
  parts_.place.header->limit.store(limit, std::memory_order_release);
  return {};
}

Result<void> SrqImpl::resize(uint32_t max_wr) {
  auto place = parts_.resize(max_wr);
  if (!place) return std::unexpected(place.error());
  parts_.place = *place;
  queue.move(place->ring);
  if (parts_.abandoned != nullptr) parts_.abandoned->move(place->ring, place->held);
  return {};
}

}  // namespace client

uint32_t SharedReceiveQueue::id() const { return impl_->parts().id; }
uint32_t SharedReceiveQueue::max_wr() const { return impl_->max_wr(); }
uint32_t SharedReceiveQueue::max_sge() const { return impl_->parts().max_sge; }
int SharedReceiveQueue::post_recv(const RecvRequest& request) { return impl_->queue.post(request); }
Result<void> SharedReceiveQueue::set_limit(uint32_t limit) { return impl_->set_limit(limit); }
Result<void> SharedReceiveQueue::resize(uint32_t max_wr) { return impl_->resize(max_wr); }

}  // namespace uroce
