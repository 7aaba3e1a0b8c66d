// Connections as in rdma_cm(7), through the daemon or on the stack of this process. Ids are bound, resolved, connected
// and accepted; channels deliver the events. Calls never wait for the network: an event reports the outcome.
//
// An embedded stack (Stack::embedded()) sends, receives and repeats the messages in Stack::poll(), and nothing happens
// without it. The only call that waits, CmChannel::wait(), polls the stack on the thread that runs it. So use fd() or
// take() between polls, or wait() where nothing else is to be done.
//
// Ownership: CmChannel and CmId are move-only handles. Destroying a CmId disconnects it. An id keeps its channel alive.
// Threads: any, also several on one object at once.
// Errors: besides the errors named at each call, EIO (the daemon ended), ENODEV (the stack ended) and EINVAL (the id's
// state forbids the call). resolve_addr(), join() and raise_event() give ENOMEM while 128 events of the id, or 32768 of
// all ids, were not received.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <uroce/cm_types.h>
#include <uroce/daemon.h>
#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/types.h>

namespace uroce {

class QueuePair;
class Stack;

namespace client {
class CmImpl;
class CmChannelImpl;
class CmIdImpl;
}  // namespace client

/// An event channel (rdma_create_event_channel(3)).
class UROCE_API CmChannel {
 public:
  CmChannel(CmChannel&&) noexcept = default;
  CmChannel& operator=(CmChannel&&) noexcept = default;

  /// A descriptor that is readable while an event waits. Take events with take(), never by reading it. The channel owns
  /// it.
  int fd() const;
  /// The next event, or nullopt when none waits. Events of ids that were destroyed or moved to another channel are
  /// skipped. When the daemon or the stack ends, each id gets one device_removal.
  std::optional<CmEvent> take();
  /// The next event; nullopt after `timeout`, at once when the daemon or the stack is gone and each id has had its
  /// device_removal, and, of the daemon, when a signal's handler has run. max() waits for ever, and a handler with
  /// SA_RESTART does not end that wait. On the thread that runs an embedded stack this polls the stack.
  std::optional<CmEvent> wait(std::chrono::nanoseconds timeout);

 private:
  friend class CmId;
  friend class ConnectionManager;
  explicit CmChannel(std::shared_ptr<client::CmChannelImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::CmChannelImpl> impl_;
};

/// A communication id: one endpoint (rdma_create_id(3)).
class UROCE_API CmId {
 public:
  CmId(CmId&&) noexcept = default;
  CmId& operator=(CmId&&) noexcept = default;

  /// Unique within its ConnectionManager; never 0 and never used again.
  uint32_t number() const;
  /// The id's addresses and route as they are now.
  Result<CmIdInfo> info() const;

  /// rdma_bind_addr(3). Port 0 takes a free port. Errors: EADDRINUSE (the port is taken), EADDRNOTAVAIL (no device has
  /// the address), EACCES.
  Result<void> bind(const CmAddress& local);
  /// rdma_resolve_addr(3). Binds to `local`, or to a suitable address, and resolves the route to `remote`.
  /// addr_resolved or addr_error (-EHOSTUNREACH, -ENETUNREACH, -ETIMEDOUT) follows within `timeout`.
  Result<void> resolve_addr(const std::optional<CmAddress>& local, const CmAddress& remote,
                            std::chrono::milliseconds timeout);
  /// rdma_resolve_route(3). route_resolved or route_error follows.
  Result<void> resolve_route(std::chrono::milliseconds timeout);
  /// rdma_listen(3). A `backlog` of 0 takes the default. An id that is not bound gets a free port.
  Result<void> listen(int backlog);
  /// rdma_connect(3). connect_response, unreachable, rejected or connect_error follows, or established for UD. After
  /// connect_response the caller moves its queue pair to RTS and calls establish().
  /// Errors: EINVAL (private data too long, a vendor of more than 24 bits).
  Result<void> connect(const CmParam& param);
  /// Sends the RTU (rdma_establish(3)). The connection is then established; no event follows.
  Result<void> establish();
  /// rdma_accept(3), for an id that came with connect_request. The caller has moved its queue pair through RTR to RTS.
  /// established follows.
  Result<void> accept(const CmParam& param);
  /// connect() of an id with its queue pair, of any type but UD, in INIT with the attributes of qp_attr(). The manager
  /// moves the queue pair to RTS when the peer has answered, and establishes the connection; the event is
  /// `established`. Where that fails, the event is connect_error, with the queue pair in the error state. An answer to
  /// a queue pair that has gone is a connect_response. The queue pair and the ConnectionManager are of the same daemon,
  /// or both of this process. Errors: those of connect(); EINVAL (a queue pair of somewhere else). With the daemon, a
  /// failure may instead be the event connect_error.
  Result<void> connect(const CmParam& param, QueuePair& qp);
  /// accept() of an id with its queue pair, likewise: the manager moves it to RTS first. On success the queue pair may
  /// post at once. Errors: those of accept() and QueuePair::modify(), with the queue pair in the error state.
  Result<void> accept(const CmParam& param, QueuePair& qp);
  /// rdma_reject(3), with at most 148 bytes of private data (UD: 136). `reason` is 28 (by the application), or 35
  /// (vendor option not supported) for ECE.
  Result<void> reject(std::span<const std::byte> private_data, uint8_t reason = 28);
  /// rdma_disconnect(3). disconnected follows.
  Result<void> disconnect();
  /// Moves the id's queue pair to the error state first.
  Result<void> disconnect(QueuePair& qp);
  /// rdma_notify(3) with IBV_EVENT_COMM_EST: packets arrived before the RTU.
  Result<void> notify_established();
  /// The attributes that move this connection's queue pair to `state`: init, rtr or rts (rdma_init_qp_attr(3)).
  Result<std::pair<QpAttr, QpAttrMask>> qp_attr(QpState state) const;
  /// Options of rdma_set_option(3). Set them before the call that they affect. `code` is 4.096 us * 2^code.
  Result<void> set_type_of_service(uint8_t tos);
  Result<void> set_reuse_address(bool on);
  Result<void> set_af_only(bool on);
  Result<void> set_ack_timeout(uint8_t code);
  /// rdma_join_multicast_ex(3), for a UD id that has a device. multicast_join (with av, qpn and qkey) or
  /// multicast_error follows and carries `token`. To receive the group's datagrams, the caller attaches its queue pair
  /// (QueuePair::attach_multicast()), which joins the group on the link.
  Result<void> join(const CmAddress& group, uint64_t token);
  /// rdma_leave_multicast(3).
  Result<void> leave(const CmAddress& group);
  /// Raises an event of the program's own, of type user, addrinfo_resolved or addrinfo_error, behind those that wait
  /// (rdma_write_cm_event(3)). Errors: EINVAL (another type); ENOMEM, as for resolve_addr().
  Result<void> raise_event(CmEventType type, int status, uint64_t argument);
  /// Delivers this id's events to `channel` from now on, including those that were not taken yet (rdma_migrate_id(3)).
  Result<void> migrate(const CmChannel& channel);

 private:
  friend class ConnectionManager;
  explicit CmId(std::shared_ptr<client::CmIdImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::CmIdImpl> impl_;
};

/// A program's use of the connection manager of the daemon, or of the stack in this process. A process needs only one.
class UROCE_API ConnectionManager {
 public:
  /// Errors: those of daemon_devices().
  static Result<ConnectionManager> open(const DaemonOptions& options = {});
  /// Opens all devices of the stack (in liburoce alone). The manager may outlive the stack. Ports below 1024 need no
  /// right. Any thread. Errors: EBUSY (something else has a device's queue pair 1), ENOMEM, EMFILE, ETIMEDOUT.
  static Result<ConnectionManager> open(Stack& stack);
  ConnectionManager(ConnectionManager&&) noexcept = default;
  ConnectionManager& operator=(ConnectionManager&&) noexcept = default;

  /// rdma_create_event_channel(3). Errors: EMFILE (descriptors), ENOMEM (the daemon's limits).
  Result<CmChannel> create_channel();
  /// rdma_create_id(3). `type` is rc, uc, ud, or in port space IB also xrc_initiator, which connects, or xrc_target,
  /// which listens. Errors: EINVAL (another type), ENOMEM (limits.max_cm_id of the daemon).
  Result<CmId> create_id(const CmChannel& channel, PortSpace space, QpType type);
  /// The id that came with a connect_request, once per request. It is on the channel that delivered the event. An id
  /// that is never adopted stays until the manager is destroyed. Errors: EINVAL (no such request, or its channel is
  /// gone).
  Result<CmId> adopt(const CmEvent& request);

  /// The library calls this. Applications call open().
  explicit ConnectionManager(std::shared_ptr<client::CmImpl> impl) : impl_(std::move(impl)) {}

 private:
  std::shared_ptr<client::CmImpl> impl_;
};

}  // namespace uroce
