#include "control/cq.h"

#include "control/session.h"

namespace uroce::control {

using queues::Cqe;
using queues::CqHeader;
using queues::RingPlace;

std::size_t Cq::bytes(uint32_t entries, uint32_t engines) {
  return sizeof(CqHeader) + engines * queues::ring_bytes(entries, sizeof(Cqe));
}

Cq::Cq(std::shared_ptr<Session> session, uint32_t id, uint32_t entries, uint32_t engines,
       std::unique_ptr<QueueMemory> memory, std::shared_ptr<Channel> channel)
    : session_(std::move(session)),
      id_(id),
      entries_(entries),
      memory_(std::move(memory)),
      header_(reinterpret_cast<CqHeader*>(memory_->data())),
      channel_(std::move(channel)) {
  writers_.reserve(engines);
  for (uint32_t engine = 0; engine < engines; ++engine) {
    writers_.push_back({transport::CqWriter(id_, header_, ring(engine))});
  }
}

RingPlace Cq::ring(uint32_t engine) const {
  std::byte* rings = memory_->data() + sizeof(CqHeader);
  return RingPlace::at(rings + engine * queues::ring_bytes(entries_, sizeof(Cqe)), entries_, sizeof(Cqe));
}

void Cq::destroy(Cq* cq) {
  {
    Device& device = *cq->session_->device();
    const auto lock = device.runner_.lock();
    if (cq->channel_ != nullptr) cq->channel_->remove(*cq);
    device.events_.remove(EventObject::cq, cq->id_);
    device.events_.cqs().give_back(cq->id_);
  }
  delete cq;
}

void Cq::fire() {
  if (channel_ == nullptr) return;
  fired_.fetch_add(1, std::memory_order_release);
  channel_->signal();
}

bool Cq::take_event() {
  uint32_t fired = fired_.load(std::memory_order_acquire);
  while (fired != 0) {
    if (fired_.compare_exchange_weak(fired, fired - 1, std::memory_order_acq_rel)) return true;
  }
  return false;
}

}  // namespace uroce::control
