#include "control/srq.h"

#include <bit>
#include <cerrno>

#include <fmt/format.h>

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

Result<void> ControlSrq::resize(uint32_t max_wr) {
  if (auto ok = check_size("the shared receive queue's max_wr", max_wr, 1, kMaxSrqWr); !ok) return ok;
  const uint32_t entries = std::bit_ceil(max_wr);
  const auto session = pd_->session();
  Device& device = *session->device();
  auto memory = session->allocator().allocate(queues::SrqPlace::bytes(entries, max_sge()));
  if (!memory) return std::unexpected(memory.error());
  const auto to = queues::SrqPlace::at((*memory)->data(), entries, max_sge());
  const auto lock = device.runner().lock();
  if (auto alive = device.check_alive(); !alive) return alive;
  uint32_t posted = 0, limit = 0;
  bool moved = false;
  const auto work = [&](transport::Engine&) {
    posted = shared_.ring.available();
    limit = shared_.header->limit.load(std::memory_order_acquire);
    if (limit > entries || !shared_.ring.move(to.ring)) return;
    to.header->limit.store(limit, std::memory_order_release);
    shared_.header = to.header;
    moved = true;
  };
  if (auto ran = device.runner().run(engine_, work); !ran) {
    device.objects().keep(std::move(*memory));
    return ran;
  }
  if (!moved) {
    return fail(EINVAL,
                fmt::format("cannot resize shared receive queue {} to {} receives: {} are posted, and its limit "
                            "is {}; take more entries, or lower the limit",
                            id(), entries, posted, limit));
  }
  memory_ = std::move(*memory);
  place_ = to;
  return {};
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
