// A queue pair in the control plane: the memory of its queues, the objects that it keeps alive, its changes of state.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>
#include <uroce/verbs/parameters.h>

#include "control/device_limits.h"
#include "control/engine_runner.h"
#include "control/object_state.h"
#include "control/queue_memory.h"
#include "control/region.h"
#include "control/session_doorbells.h"
#include "queues/place.h"
#include "transport/qp/qp.h"
#include "transport/qp/spec.h"
#include "transport/qp/status.h"

namespace uroce::control {

class Cq;
class Device;
class DeviceSession;
class ControlSrq;
class XrcDomain;

class ControlQp {
 public:
  /// The objects that a queue pair keeps alive.
  struct Refs {
    std::shared_ptr<Pd> pd;
    std::shared_ptr<Cq> send_cq;
    std::shared_ptr<Cq> recv_cq;
    std::shared_ptr<ControlSrq> srq;
    std::shared_ptr<XrcDomain> xrc_domain;  ///< of a target, which has no queues of its own
  };

  uint32_t qpn() const { return spec_.qpn; }
  QpType type() const { return spec_.type; }
  /// The sizes in force, at least those asked for.
  const QpCap& cap() const { return spec_.cap; }
  uint32_t engine() const { return engine_; }
  const std::shared_ptr<DeviceSession>& session() const { return refs_.pd->session(); }

  // The place of the application's side of the queues.
  queues::RingPlace send_queue() const { return spec_.sq; }
  queues::RingPlace recv_queue() const { return spec_.rq; }  ///< entries 0 with an SRQ
  queues::DoorbellFlag* doorbell_flag() const { return spec_.sq_doorbell; }
  queues::DoorbellPoster doorbell() const { return doorbells_.poster(); }
  const SessionDoorbells::Ring& doorbell_ring() const { return doorbells_; }
  const QueueMemory& memory() const { return *memory_; }

  /// See QueuePair::modify(). `patience`: for the peer's Ethernet address. Any thread. Errors: EINVAL, EOPNOTSUPP,
  /// EHOSTUNREACH, ENETUNREACH, ETIMEDOUT, ENODEV.
  Result<void> modify(const QpAttr& attr, QpAttrMask mask, std::chrono::nanoseconds patience = kResolveTimeout);
  /// To the error state. Errors: as modify().
  Result<void> to_error() { return modify({.state = QpState::error}, QpAttrBit::state); }
  /// The attributes now, as the engine has them. Errors: ETIMEDOUT, ENODEV.
  Result<QpAttr> query() const;
  /// The attributes, and the state of the transport. On the thread of `engine`, which is the queue pair's.
  void look(transport::Engine& engine, QpAttr& attr, transport::QpTransportStatus& status) const;
  /// See QueuePair::attach_multicast(). Any thread. Errors: EINVAL, ENOMEM, ETIMEDOUT, ENODEV.
  Result<void> attach_multicast(const Gid& group);
  Result<void> detach_multicast(const Gid& group);
  /// Calls `work` on each engine of the device. The caller holds the lock. Errors: that of the last engine that did not
  /// reply.
  Result<void> on_every_engine(const EngineRunner::Work& work);

  /// `gsi`: as QP1. Errors: see DeviceSession.
  static Result<std::shared_ptr<ControlQp>> create(DeviceSession& session, Refs refs, const QpInit& init, bool gsi,
                                                   const QpIdentity* as = nullptr);
  /// For create() of another daemon. Any thread.
  QpIdentity identity() const;
  /// The parameters that it was created with, with the capacities in force.
  QpInit init() const;
  const Refs& refs() const { return refs_; }
  /// The engine's state of it, for adopt() of another daemon, in a version of transport::write_snapshot(). The engine
  /// is paused. Empty where nobody knows it (Engine::outlive_thread).
  std::vector<std::byte> snapshot(uint32_t version) const;
  /// Goes on with that state, with an empty one in error; the queue pair is as it was created. The engine is paused.
  /// Errors: as transport::read_snapshot().
  Result<void> adopt(std::span<const std::byte> snapshot);
  /// Deleter: detaches it from the engine. If the engine does not reply, the registry keeps it.
  static void destroy(ControlQp* qp);
  ~ControlQp() = default;

 private:
  using Core = transport::QpPtr;

  ControlQp(Refs refs, uint32_t engine, const SessionDoorbells::Ring& doorbells, const transport::QpSpec& spec,
            std::unique_ptr<QueueMemory> memory, Core core);

  /// The sizes of a queue pair's queues: `cap` rounded up to the sizes of its rings. EINVAL above a limit.
  static Result<QpCap> round_up(QpCap cap, bool with_srq);
  /// Fault rules may keep completions of it, which are not to come once it is gone. The caller holds the lock.
  void release_completions();
  /// Gives the number and the place in the doorbell ring back. The caller holds the lock.
  void release();
  /// Called before the QPN is given back. The caller holds the lock.
  void leave_groups();
  /// Tell the host where this is the device's first or last queue pair in the group. The caller holds the lock.
  void use_group(const Gid& group);
  void unuse_group(const Gid& group);

  Device& device() const;
  Result<void> check(QpState now, const QpAttr& attr, QpAttrMask mask) const;
  /// check() in the state that the engine has the queue pair in. The caller does not hold the lock.
  Result<void> check_now(const QpAttr& attr, QpAttrMask mask) const;
  std::unexpected<Error> named(const Error& error) const;

  Refs refs_;
  uint32_t engine_;
  SessionDoorbells::Ring doorbells_;
  transport::QpSpec spec_;
  std::unique_ptr<QueueMemory> memory_;
  Core core_;                // belongs to the engine, as does the state in it
  std::vector<Gid> groups_;  // multicast; guarded by the control lock
};

}  // namespace uroce::control
