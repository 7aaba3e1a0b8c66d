#include "client/flush.h"

#include <algorithm>

#include "queues/layout.h"

namespace uroce::client {

bool take_held(queues::HeldRecv& held, Completion& out) {
  if (held.held.exchange(0, std::memory_order_acquire) == 0) return false;
  out = {};
  out.wr_id = held.wr_id.load(std::memory_order_relaxed);
  out.status = WcStatus::flushed;
  out.opcode = WcOpcode::recv;
  out.qpn = held.qpn.load(std::memory_order_relaxed);
  return true;
}

bool AbandonedRing::take(uint32_t qpn, Completion& out) {
  const std::scoped_lock lock(mutex_);
  if (std::ranges::any_of(held_, [&out](queues::HeldRecv& held) { return take_held(held, out); })) return true;
  if (!begun_) ring_.advance(place_.header->consumer.load(std::memory_order_acquire));
  begun_ = true;
  if (ring_.available() == 0) return false;
  const std::byte* slot = ring_.slot();
  out = {};
  out.status = WcStatus::flushed;
  out.qpn = qpn;
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

void AbandonedRing::move(queues::RingPlace place, std::span<queues::HeldRecv> held) {
  const std::scoped_lock lock(mutex_);
  place_ = place;
  held_ = held;
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

std::size_t FlushList::take(std::span<Completion> out) {
  const std::scoped_lock lock(mutex_);
  std::size_t taken = 0;
  for (const auto& [qpn, entry] : entries_) {
    entry.posts->store(QpState::reset, std::memory_order_relaxed);
    if (taken < out.size() && entry.held != nullptr && take_held(*entry.held, out[taken])) ++taken;
  }
  for (const auto& [qpn, entry] : entries_) {
    while (taken < out.size() && entry.ring->take(qpn, out[taken])) ++taken;
  }
  return taken;
}

}  // namespace uroce::client
