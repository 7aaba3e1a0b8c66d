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

void FlushList::add(uint32_t qpn, std::atomic<QpState>& posts, std::shared_ptr<AbandonedRing> ring,
                    queues::HeldRecv* held) {
  const std::scoped_lock lock(mutex_);
  entries_.emplace(qpn, Entry{&posts, std::move(ring), held});
}

void FlushList::remove(uint32_t qpn) {
  const std::scoped_lock lock(mutex_);
  entries_.erase(qpn);
}

bool FlushList::Entry::take_held(uint32_t qpn, Completion& out) const {
  if (held == nullptr || held->held.exchange(0, std::memory_order_acquire) == 0) return false;
  out = {};
  out.wr_id = held->wr_id.load(std::memory_order_relaxed);
  out.status = WcStatus::flushed;
  out.opcode = WcOpcode::recv;
  out.qpn = qpn;
  return true;
}

std::size_t FlushList::take(std::span<Completion> out) {
  const std::scoped_lock lock(mutex_);
  std::size_t taken = 0;
  for (const auto& [qpn, entry] : entries_) {
    entry.posts->store(QpState::reset, std::memory_order_relaxed);
    if (taken < out.size() && entry.take_held(qpn, out[taken])) ++taken;
  }
  for (const auto& [qpn, entry] : entries_) {
    while (taken < out.size() && entry.ring->take(out[taken])) out[taken++].qpn = qpn;
  }
  return taken;
}

}  // namespace uroce::client
