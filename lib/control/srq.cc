#include "control/srq.h"

#include <bit>

#include "control/check_size.h"
#include "control/device_session.h"

namespace uroce::control {

Result<std::shared_ptr<ControlSrq>> DeviceSession::create_srq(std::shared_ptr<Pd> pd, uint32_t max_wr,
                                                              uint32_t max_sge) {
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  if (auto ok = check_size("the shared receive queue's max_wr", max_wr, 1, kMaxSrqWr); !ok) {
    return std::unexpected(ok.error());
  }
  if (auto ok = check_size("the shared receive queue's max_sge", max_sge, 0, kMaxSge); !ok) {
    return std::unexpected(ok.error());
  }
  const uint32_t entries = std::bit_ceil(max_wr);
  auto memory = allocator_->allocate(queues::SrqPlace::bytes(entries, max_sge));
  if (!memory) return std::unexpected(memory.error());
  const auto lock = device_->runner().lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  const auto id = device_->objects().take_srq();
  if (!id) return std::unexpected(id.error());
  std::shared_ptr<ControlSrq> srq(
      new ControlSrq(std::move(pd), *id, device_->choose_engine(), entries, max_sge, std::move(*memory)),
      &ControlSrq::destroy);
  device_->events().add(EventObject::srq, *id, *events_);
  return srq;
}

ControlSrq::ControlSrq(std::shared_ptr<Pd> pd, uint32_t id, uint32_t engine, uint32_t entries, uint32_t max_sge,
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

void ControlSrq::destroy(ControlSrq* srq) {
  {
    Device& device = *srq->pd_->session()->device();
    const auto lock = device.runner().lock();
    device.events().remove(EventObject::srq, srq->id());
    device.objects().give_back_srq(srq->id());
  }
  delete srq;
}

}  // namespace uroce::control
