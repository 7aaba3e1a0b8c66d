#include "client/flush.h"

#include "queues/layout.h"

namespace uroce::client {

bool AbandonedRing::take(Completion& out) {
  const std::scoped_lock lock(mutex_);
  if (!begun_) ring_.advance(place_.header->consumer.load(std::memory_order_acquire));
  begun_ = true;
  if (ring_.available() == 0) return false;
  const std::byte* slot = ring_.slot();
  out = {};
  out.status = WcStatus::flushed;
  if (holds_ == Holds::sends) {
    const auto& wqe = *reinterpret_cast<const queues::SendWqe*>(slot);
    out.wr_id = wqe.wr_id;
    out.opcode = queues::completion_opcode(static_cast<WrOpcode>(wqe.opcode));
  } else {
    out.wr_id = reinterpret_cast<const queues::RecvWqe*>(slot)->wr_id;
    out.opcode = WcOpcode::recv;
  }
  ring_.consume(1);
  return true;
}

void AbandonedRing::move(queues::RingPlace place) {
  const std::scoped_lock lock(mutex_);
  place_ = place;
  ring_ = queues::RingConsumer(place);
}

void FlushList::add(uint32_t qpn, std::atomic<QpState>& posts, std::shared_ptr<AbandonedRing> ring) {
  const std::scoped_lock lock(mutex_);
  entries_.push_back({qpn, &posts, std::move(ring)});
}

void FlushList::remove(uint32_t qpn) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(entries_, [qpn](const Entry& entry) { return entry.qpn == qpn; });
}

std::size_t FlushList::take(std::span<Completion> out) {
  const std::scoped_lock lock(mutex_);
  std::size_t taken = 0;
  for (const Entry& entry : entries_) {
    entry.posts->store(QpState::reset, std::memory_order_relaxed);
    while (taken < out.size() && entry.ring->take(out[taken])) out[taken++].qpn = entry.qpn;
  }
  return taken;
}

}  // namespace uroce::client
