#include "control/cq.h"

#include "control/session.h"

namespace uroce::control {

Cq::Cq(std::shared_ptr<Session> session, uint32_t id, uint32_t entries, uint32_t engines,
       std::unique_ptr<QueueMemory> memory, std::shared_ptr<Channel> channel)
    : session_(std::move(session)),
      id_(id),
      entries_(entries),
      memory_(std::move(memory)),
      place_(queues::CqPlace::at(memory_->data(), entries)),
      channel_(std::move(channel)) {
  writers_.reserve(engines);
  for (uint32_t engine = 0; engine < engines; ++engine) {
    writers_.push_back({transport::CqWriter(id_, place_.header, place_.ring(engine))});
  }
}

void Cq::destroy(Cq* cq) {
  {
    Device& device = *cq->session_->device();
    const auto lock = device.runner_.lock();
    device.events_.remove(EventObject::cq, cq->id_);
    device.events_.cqs().give_back(cq->id_);
  }
  delete cq;
}

void Cq::fire() {
  if (channel_ == nullptr) return;
  // The application reads a token of the channel first and then looks which queue's count has moved.
  place_.header->fired.fetch_add(1, std::memory_order_release);
  channel_->signal();
}

}  // namespace uroce::control
