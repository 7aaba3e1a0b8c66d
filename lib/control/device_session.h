// One opener's resources on a device: its doorbells, its asynchronous events, and the verbs that make objects.
//
// Objects are shared pointers: the last one to go destroys the object, which includes the handshake with the engines
// that used it. Any thread; calls block until the engine has replied, at most for its timeout.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include <uroce/error.h>
#include <uroce/types.h>
#include <uroce/verbs/parameters.h>

#include "control/async_events.h"
#include "control/device.h"
#include "control/event_pipe.h"
#include "control/object_state.h"
#include "control/queue_memory.h"
#include "control/session_doorbells.h"
#include "transport/datagram/address_handles.h"
#include "transport/qp/cq_writer.h"

namespace uroce::control {

class AddressHandle;
class ControlQp;
class ControlSrq;
class Cq;
class CqChannel;
class Pd;
class Region;
class Window;
class XrcDomain;

/// Each create call is defined beside its object: create_cq() in cq.cc, create_srq() in srq.cc, and so on.
class DeviceSession : public std::enable_shared_from_this<DeviceSession> {
 public:
  /// A new, empty set of resources. `allocator` places its queues; nullptr for memory of this process. `owner`: whom it
  /// is opened for, by which engines share their time. Without a user it counts as this process's.
  /// Errors: ENOMEM (1024 sessions, or doorbell rings of one engine), ENODEV, ETIMEDOUT.
  /// `as`: a session of another daemon that this one goes on with; also EINVAL, where it had another number of engines.
  static Result<std::shared_ptr<DeviceSession>> open(std::shared_ptr<Device> device,
                                                     std::shared_ptr<QueueAllocator> allocator = nullptr,
                                                     const transport::Owner& owner = {},
                                                     const SessionState* as = nullptr);
  ~DeviceSession();
  DeviceSession(const DeviceSession&) = delete;
  DeviceSession& operator=(const DeviceSession&) = delete;

  const std::shared_ptr<Device>& device() const { return device_; }
  /// Of the device; no other session has it while this one is open.
  uint32_t id() const { return id_; }
  /// The user that it was opened for (transport::Owner).
  uint32_t user() const { return owner_.user; }
  AsyncEventQueue& events() { return *events_; }
  /// Places the queues of this session's objects; the control lock is not held.
  QueueAllocator& allocator() { return *allocator_; }
  SessionDoorbells& doorbells() { return doorbells_; }
  /// The packets of its queue pairs since it was opened. Sessions without a user have one sum for all of them, because
  /// engines do not tell them apart. Any thread.
  transport::Traffic traffic() const;
  /// The ring for a new queue pair on `engine`, until SessionDoorbells::give_back(). The caller holds `lock`, the
  /// control lock, which is released while memory is allocated. Errors: ENOMEM, ETIMEDOUT, ENODEV.
  Result<SessionDoorbells::Ring> take_doorbell(uint32_t engine, std::unique_lock<std::mutex>& lock);
  /// The ring that a queue pair of another daemon has. The caller holds the lock. Errors: EINVAL.
  Result<SessionDoorbells::Ring> take_doorbell(uint32_t engine, bool large);

  /// For open() of another daemon. The engines are paused.
  SessionState state() const;

  /// `as` and `number`, of all that follow: the object is another daemon's, whose numbers and positions it gets; also
  /// EINVAL, where a number is in use here. Errors of all: ENODEV after the device was shut down.
  Result<std::shared_ptr<Pd>> create_pd(uint32_t number = 0);
  /// Registers [address, address + length), the addresses in work requests; the bytes are at `host`. `backing`, if any,
  /// owns that memory; it is released when no engine uses it any more.
  /// Errors: EINVAL (see RegionTable::add), ENOMEM (the device's max_mr).
  Result<std::shared_ptr<Region>> register_memory(std::shared_ptr<Pd> pd, uint64_t address, uint64_t length,
                                                  std::byte* host, AccessFlags access,
                                                  std::shared_ptr<void> backing = nullptr,
                                                  const memory::KeyState* as = nullptr);
  /// A region for local access that reads as zeros and drops what is written. Errors: ENOMEM (max_mr).
  Result<std::shared_ptr<Region>> create_null_region(std::shared_ptr<Pd> pd, const memory::KeyState* as = nullptr);
  /// A memory window, not bound. Errors: EINVAL (no such type), ENOMEM (max_mr, which counts windows too).
  Result<std::shared_ptr<Window>> create_window(std::shared_ptr<Pd> pd, WindowType type,
                                                const memory::KeyState* as = nullptr);
  /// Resolves `av` as a modify to RTR does, within `timeout` (0 queries the network and uses the cached address); a
  /// multicast dgid needs no resolving. No lock may be held.
  /// Errors: EINVAL, EHOSTUNREACH, ENETUNREACH, ENOMEM (65536 handles).
  Result<std::shared_ptr<AddressHandle>> create_address_handle(std::shared_ptr<Pd> pd, const AddressVector& av,
                                                               std::chrono::nanoseconds timeout = kResolveTimeout);
  /// The handle of another daemon. It is not resolved again.
  Result<std::shared_ptr<AddressHandle>> create_address_handle(std::shared_ptr<Pd> pd,
                                                               const transport::AddressHandle& as, uint32_t number);
  /// Errors: EMFILE.
  Result<std::shared_ptr<CqChannel>> create_channel();
  std::shared_ptr<CqChannel> create_channel(EventPipe as);
  /// Errors: EINVAL (entries 0 or above kMaxCqe, foreign channel), ENOMEM.
  Result<std::shared_ptr<Cq>> create_cq(uint32_t entries, std::shared_ptr<CqChannel> channel,
                                        transport::CqOverrun overrun = transport::CqOverrun::fails,
                                        const CqState* as = nullptr);
  /// An XRC queue's domain, and the completion queue of all its receives.
  struct XrcQueue {
    std::shared_ptr<XrcDomain> domain;
    std::shared_ptr<Cq> cq;
  };
  /// Errors: EINVAL (sizes out of range, foreign object), ENOMEM; with `xrc`, ETIMEDOUT too.
  Result<std::shared_ptr<ControlSrq>> create_srq(std::shared_ptr<Pd> pd, uint32_t max_wr, uint32_t max_sge,
                                                 XrcQueue xrc = {}, const SrqState* as = nullptr);
  /// Every type but an XRC target. Errors: EINVAL (sizes out of range, foreign object, engine), ENOMEM, EOPNOTSUPP
  /// (type), ETIMEDOUT (engine).
  Result<std::shared_ptr<ControlQp>> create_qp(std::shared_ptr<Pd> pd, std::shared_ptr<Cq> send_cq,
                                               std::shared_ptr<Cq> recv_cq, const QpInit& init,
                                               std::shared_ptr<ControlSrq> srq, const QpIdentity* as = nullptr);
  /// A target queue pair of `domain`, which may be another session's. No program sees its memory. It lives until the
  /// last of those who made or opened it gives it up; its events come to each of them. Of `init` only the choices of
  /// recovery and congestion control count. Errors: EINVAL (domain of another device), ENOMEM, ETIMEDOUT.
  Result<std::shared_ptr<ControlQp>> create_xrc_target(const std::shared_ptr<XrcDomain>& domain, const QpInit& init,
                                                       const QpIdentity* as = nullptr);
  /// Errors: EINVAL (domain of another device; no such target queue pair).
  Result<std::shared_ptr<ControlQp>> open_xrc_target(const std::shared_ptr<XrcDomain>& domain, uint32_t qpn);
  /// QP1, a UD queue pair for the device's connection manager; `pd` and `cq` are this session's. Its Q_Key is
  /// transport::kGsiQkey. Errors: EBUSY (the device's QP1 is in use), EINVAL, ENOMEM, ETIMEDOUT.
  Result<std::shared_ptr<ControlQp>> create_gsi_qp(std::shared_ptr<Pd> pd, std::shared_ptr<Cq> cq, const QpCap& cap);

 private:
  DeviceSession(std::shared_ptr<Device> device, uint32_t id, std::shared_ptr<QueueAllocator> allocator,
                std::unique_ptr<AsyncEventQueue> events, SessionDoorbells doorbells, const transport::Owner& owner);
  /// Lets every engine poll this session's doorbells. After an error none does. The caller holds the lock.
  Result<void> attach(const SessionState* as);
  /// Adds the large rings of `as`. The caller does not hold the lock.
  Result<void> attach_large(const SessionState& as);
  Result<SessionDoorbells::Ring> add_large_ring(uint32_t engine, std::unique_ptr<QueueMemory> memory,
                                                uint32_t position);
  static void destroy(DeviceSession* session);
  Result<void> check_domain(const XrcDomain* domain) const;
  Result<void> check_owner(const void* object, const DeviceSession* owner, const char* what) const;

  std::shared_ptr<Device> device_;
  uint32_t id_;
  std::shared_ptr<QueueAllocator> allocator_;
  std::unique_ptr<AsyncEventQueue> events_;
  SessionDoorbells doorbells_;
  transport::Owner owner_;
  /// Its number on an engine.
  struct EngineClient {
    uint16_t number = transport::Owners::kOwnProcess;
    transport::Traffic before{};  ///< of those that had the number before
  };
  transport::Traffic earlier_{};              ///< with another daemon
  std::vector<EngineClient> engine_clients_;  ///< by engine; does not change once the session is open
};

}  // namespace uroce::control
