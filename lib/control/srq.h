// A shared receive queue. It and all its queue pairs live on one engine.
#pragma once

#include <cstdint>
#include <memory>

#include "control/device_session.h"
#include "control/queue_memory.h"
#include "control/region.h"
#include "queues/place.h"
#include "transport/qp/srq.h"

namespace uroce::control {

class ControlSrq {
 public:
  /// `entries`: a power of two. Made by DeviceSession::create_srq().
  ControlSrq(std::shared_ptr<Pd> pd, uint32_t id, uint32_t engine, uint32_t entries, uint32_t max_sge,
             std::unique_ptr<QueueMemory> memory, DeviceSession::XrcQueue xrc, uint32_t next = 0);
  /// For DeviceSession::create_srq() of another daemon. The engine is paused.
  SrqState state() const { return {.id = shared_.id, .engine = engine_, .next = shared_.ring.next()}; }

  /// Its number on the device, which requests name for an XRC queue.
  uint32_t id() const { return shared_.id; }
  bool is_xrc() const { return xrc_.domain != nullptr; }
  const DeviceSession::XrcQueue& xrc() const { return xrc_; }
  uint32_t engine() const { return engine_; }
  uint32_t max_wr() const { return place_.ring.entries; }
  uint32_t max_sge() const { return shared_.max_sge; }
  /// Receives posted and not used yet. Any thread.
  uint32_t posted() const;
  const std::shared_ptr<Pd>& pd() const { return pd_; }
  /// Moves the posted receives to new memory for `max_wr` receives at least. Receives that are posted meanwhile are
  /// lost. Errors: EINVAL (size; more receives posted; below the limit set), ENOMEM, ENODEV, ETIMEDOUT.
  Result<void> resize(uint32_t max_wr);
  queues::SrqPlace place() const { return place_; }
  const QueueMemory& memory() const { return *memory_; }
  /// The engine's side; only for its thread.
  transport::Srq& shared() { return shared_; }

  static void destroy(ControlSrq* srq);

 private:
  std::shared_ptr<Pd> pd_;
  DeviceSession::XrcQueue xrc_;
  uint32_t engine_;
  std::unique_ptr<QueueMemory> memory_;
  queues::SrqPlace place_;
  transport::Srq shared_;
};

}  // namespace uroce::control
