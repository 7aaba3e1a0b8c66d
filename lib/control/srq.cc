#include "control/srq.h"

#include <bit>
#include <cerrno>

#include <fmt/format.h>

#include "control/check_size.h"
#include "control/cq.h"
#include "control/xrc_domain.h"

namespace uroce::control {

Result<std::shared_ptr<ControlSrq>> DeviceSession::create_srq(std::shared_ptr<Pd> pd, uint32_t max_wr, uint32_t max_sge,
                                                              XrcQueue xrc, const SrqState* as) {
  const bool is_xrc = xrc.domain != nullptr;
  if (auto ok = check_owner(pd.get(), pd ? pd->session().get() : nullptr, "protection domain"); !ok) {
    return std::unexpected(ok.error());
  }
  if (is_xrc) {
    if (auto ok = check_domain(xrc.domain.get()); !ok) return std::unexpected(ok.error());
    if (auto ok = check_owner(xrc.cq.get(), xrc.cq ? xrc.cq->session().get() : nullptr, "completion queue"); !ok) {
      return std::unexpected(ok.error());
    }
  }
  if (auto ok = check_size("the shared receive queue's max_wr", max_wr, 1, kMaxSrqWr); !ok) {
    return std::unexpected(ok.error());
  }
  if (auto ok = check_size("the shared receive queue's max_sge", max_sge, 0, kMaxSge); !ok) {
    return std::unexpected(ok.error());
  }
  const uint32_t entries = std::bit_ceil(max_wr);
  auto memory = allocator_->allocate(queues::SrqPlace::bytes(entries, max_sge, is_xrc));
  if (!memory) return std::unexpected(memory.error());
  const auto lock = device_->runner().lock();
  if (auto alive = device_->check_alive(); !alive) return std::unexpected(alive.error());
  if (as != nullptr && (as->engine >= device_->engines() || (is_xrc && as->engine != xrc.domain->engine()))) {
    return fail(EINVAL, fmt::format("cannot go on with shared receive queue {} of engine {}: {} has {} engines, or "
                                    "its XRC domain is on another one",
                                    as->id, as->engine, device_->config().name, device_->engines()));
  }
  const auto id = as != nullptr ? device_->objects().take_srq(as->id) : device_->objects().take_srq();
  if (!id) return std::unexpected(id.error());
  const uint32_t engine = as != nullptr ? as->engine : is_xrc ? xrc.domain->engine() : device_->choose_engine();
  std::unique_ptr<ControlSrq> srq(new ControlSrq(std::move(pd), *id, engine, entries, max_sge, std::move(*memory),
                                                 std::move(xrc), as != nullptr ? as->next : 0));
  if (is_xrc) {
    const auto work = [&srq](transport::Engine& e) { e.attach_srq(srq->shared()); };
    if (auto ran = device_->runner().run(engine, work); !ran) {
      device_->objects().give_back_srq(*id);
      return std::unexpected(ran.error());
    }
  }
  device_->events().add(EventObject::srq, *id, *events_);
  return std::shared_ptr<ControlSrq>(srq.release(), &ControlSrq::destroy);
}

ControlSrq::ControlSrq(std::shared_ptr<Pd> pd, uint32_t id, uint32_t engine, uint32_t entries, uint32_t max_sge,
                       std::unique_ptr<QueueMemory> memory, DeviceSession::XrcQueue xrc, uint32_t next)
    : pd_(std::move(pd)),
      xrc_(std::move(xrc)),
      engine_(engine),
      memory_(std::move(memory)),
      place_(queues::SrqPlace::at(memory_->data(), entries, max_sge, is_xrc())) {
  shared_.id = id;
  shared_.pd = pd_->id();
  shared_.max_sge = max_sge;
  shared_.header = place_.header;
  shared_.ring = queues::RingConsumer(place_.ring, next);
  if (!is_xrc()) return;
  shared_.held = place_.held;
  shared_.xrc_domain = xrc_.domain->id();
  shared_.cq = &xrc_.cq->writer(engine_);
}

uint32_t ControlSrq::posted() const {
  const auto lock = pd_->session()->device()->runner().lock();
  return place_.ring.filled();
}

Result<void> ControlSrq::resize(uint32_t max_wr) {
  if (auto ok = check_size("the shared receive queue's max_wr", max_wr, 1, kMaxSrqWr); !ok) return ok;
  const uint32_t entries = std::bit_ceil(max_wr);
  const auto session = pd_->session();
  Device& device = *session->device();
  auto memory = session->allocator().allocate(queues::SrqPlace::bytes(entries, max_sge(), is_xrc()));
  if (!memory) return std::unexpected(memory.error());
  const auto to = queues::SrqPlace::at((*memory)->data(), entries, max_sge(), is_xrc());
  const auto lock = device.runner().lock();
  if (auto alive = device.check_alive(); !alive) return alive;
  uint32_t posted = 0, limit = 0;
  bool moved = false;
  const auto work = [&](transport::Engine& engine) {
    engine.change_srq(shared_, [&] {
      posted = shared_.ring.available();
      limit = shared_.header->limit.load(std::memory_order_acquire);
      if (limit > entries || !shared_.ring.move(to.ring)) return;
      to.header->limit.store(limit, std::memory_order_release);
      shared_.header = to.header;
      for (std::size_t i = 0; i < to.held.size(); ++i) queues::copy(shared_.held[i], to.held[i]);
      shared_.held = to.held;
      moved = true;
    });
  };
  if (auto ran = device.runner().run(engine_, work); !ran) return ran;
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
    if (srq->is_xrc()) {
      // The engine may be using the queue at this moment; it stays until the engine answers or is known to be stopped.
      const auto work = [srq](transport::Engine& engine) { engine.detach_srq(srq->shared_); };
      if (!device.runner().run(srq->engine_, work)) {
        device.objects().defer([srq] { destroy(srq); });
        return;
      }
    }
    device.events().remove(EventObject::srq, srq->id());
    device.objects().give_back_srq(srq->id());
  }
  delete srq;
}

}  // namespace uroce::control
