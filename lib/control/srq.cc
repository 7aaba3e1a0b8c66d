#include "control/srq.h"

#include "control/session.h"

namespace uroce::control {

Srq::Srq(std::shared_ptr<Pd> pd, uint32_t id, uint32_t engine, uint32_t entries, uint32_t max_sge,
         std::unique_ptr<QueueMemory> memory)
    : pd_(std::move(pd)),
      engine_(engine),
      memory_(std::move(memory)),
      place_(queues::SrqPlace::at(memory_->data(), entries, max_sge)) {
  shared_.id = id;
  shared_.pd = pd_->id();
  shared_.max_sge = max_sge;
  shared_.header = place_.header;
  shared_.ring = queues::RingConsumer(place_.ring);
}

void Srq::destroy(Srq* srq) {
  {
    Device& device = *srq->pd_->session()->device();
    const auto lock = device.runner_.lock();
    device.events_.remove(EventObject::srq, srq->id());
    device.srq_ids_.give_back(srq->id());
  }
  delete srq;
}

}  // namespace uroce::control
