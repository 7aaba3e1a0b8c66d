// Queue pairs, and the receive rules of raw packet queue pairs. <uroce/verbs.h> tells of ownership, threads and errors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/flow.h>
#include <uroce/types.h>
#include <uroce/verbs/work_requests.h>

namespace uroce {

namespace client {
class FlowImpl;
class QpImpl;
}  // namespace client

/// A receive rule of raw packet queue pairs (ibv_create_flow(3)). The rule ends with this object.
class UROCE_API Flow {
 public:
  Flow(Flow&&) noexcept = default;
  Flow& operator=(Flow&&) noexcept = default;

  /// The frames that the rule has counted, on all engines. Any thread.
  Result<FlowCounters> counters() const;

 private:
  friend class Context;
  friend class QueuePair;
  explicit Flow(std::shared_ptr<client::FlowImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::FlowImpl> impl_;
};

/// A queue pair (ibv_create_qp(3)).
///
/// One of type QpType::raw_packet sends and receives whole Ethernet frames: a send's payload begins with the Ethernet
/// header and ends before the FCS, and a receive gets the same, Completion::byte_len long. Nothing is added, and no
/// checksum is computed or checked. modify() takes it from RESET over INIT (with QpAttrBit::port) and RTR to RTS. A
/// send completes with local_length_error when it is shorter than the header or longer than the port's MTU allows, and
/// with local_qp_operation_error when it may carry RoCE (UDP port 4791). The queue pair is then in SQE. It receives the
/// frames that its rules take (create_flow()); one without a receive posted, or longer than it, is lost. A frame to the
/// device's own address goes to the rules of the device alone, and one to an Ethernet group to both rules and wire.
class UROCE_API QueuePair {
 public:
  QueuePair(QueuePair&&) noexcept = default;
  QueuePair& operator=(QueuePair&&) noexcept = default;

  uint32_t qpn() const;  ///< 24 bits
  /// The real sizes; each is at least the size asked for.
  const QpCap& cap() const;
  /// Posts one send work request (ibv_post_send(3)). Returns 0, or:
  /// ENOMEM: the send queue is full. Room comes back as work requests complete; unsignaled ones give theirs back with
  /// the next signaled completion. EINVAL: more entries or inline bytes than the QP has; an opcode that this QP type
  /// lacks; entries or inline bytes with local_invalidate or bind_mw; a QP that this handle has not brought to RTS. In
  /// SQD the request waits. In the error state it completes as flushed. Faults that the engine finds later complete in
  /// error.
  int post_send(const SendRequest& request);
  /// Posts several requests in order and rings the doorbell once. Returns how many it posted. `error`, if given, is set
  /// to 0 or to the errno value of the first request that was refused.
  std::size_t post_send(std::span<const SendRequest> requests, int* error = nullptr);
  /// As that, but posts all of them or none. Returns 0 or the errno value.
  int post_all(std::span<const SendRequest> requests);
  /// Posts one receive work request (ibv_post_recv(3)). Returns 0, ENOMEM (receive queue full) or EINVAL (more entries
  /// than max_recv_sge, QP in RESET, QP with a shared receive queue).
  int post_recv(const RecvRequest& request);
  /// Changes state and attributes (ibv_modify_qp(3); IBTA vol. 1, 11.2.5.2). `mask` says which members of `attr` count.
  /// With an address vector, the call first resolves the peer's Ethernet address. A change to RESET forgets all posted
  /// requests; completions that were already written stay in their queues. Errors, with nothing changed: EINVAL (a
  /// missing or forbidden attribute, or a value out of range; the text names it), EHOSTUNREACH (no answer within 3 s),
  /// ENETUNREACH (no route).
  Result<void> modify(const QpAttr& attr, QpAttrMask mask);
  /// One change, as modify() takes it.
  struct Step {
    QpAttr attr{};
    QpAttrMask mask{};
  };
  /// Applies up to 6 changes in order, each as if alone, and stops at the first that fails. Through the daemon they
  /// cost one call.
  Result<void> modify(std::span<const Step> steps);
  /// The attributes as they are now (ibv_query_qp(3)). `state` includes changes that the engine made, such as to error.
  Result<QpAttr> query() const;

  /// The far end of a connection, with the values that it sent to this side.
  struct Peer {
    Gid gid{};         ///< one of the peer's DeviceInfo::gids, of the same family as this side's address
    uint32_t qpn = 0;  ///< 24 bits
    uint32_t psn = 0;  ///< 24 bits: the first PSN that the peer sends
  };
  /// See QpAttr for the meaning. `path_mtu` must equal the peer's, `psn` must be the one that the peer was told, and
  /// each side's max_rd_atomic must not exceed the other's max_dest_rd_atomic.
  struct ConnectOptions {
    uint32_t psn = 0;  ///< 24 bits: the first PSN that this side sends
    uint8_t sgid_index = 0;
    Mtu path_mtu = Mtu::mtu1024;
    AccessFlags access = AccessFlags(Access::local_write) | Access::remote_write | Access::remote_read |
                         Access::remote_atomic | Access::flush_global;
    uint8_t max_rd_atomic = 16;
    uint8_t max_dest_rd_atomic = 16;
    uint8_t min_rnr_timer = 12;
    uint8_t timeout = 14;
    uint8_t retry_cnt = 7;
    uint8_t rnr_retry = 7;
    uint8_t traffic_class = 0;
    uint8_t hop_limit = 64;
  };
  /// RC, UC and XRC: from RESET to RTS in one call, for applications that exchange addresses themselves. Post receives
  /// before the peer sends. Options that the type does not have are ignored. Errors: those of modify() (the QP is then
  /// in RESET, INIT or RTR), EINVAL (UD, which has no peer).
  Result<void> connect(const Peer& peer, const ConnectOptions& options);
  /// UD: from RESET to RTS in one call. Datagrams with another Q_Key are dropped. Each received datagram has 40 bytes
  /// in front: the IPv6 header, or 20 bytes without meaning and then the IPv4 header (annex A17). Receives need room
  /// for them, and Completion::byte_len counts them. `psn` is the first PSN to send. Errors: those of modify(); EINVAL
  /// (RC, UC).
  Result<void> start(uint32_t qkey, uint32_t psn = 0);

  /// UD: receives datagrams to the group, from the wire and from this device (ibv_attach_mcast(3)). The device joins
  /// the group on the link (IGMPv3, MLDv2). Attaching twice changes nothing. Destroying the queue pair detaches it.
  /// Errors: EINVAL (not UD, not a multicast GID, not attached), ENOMEM (max_multicast_attach).
  Result<void> attach_multicast(const Gid& group);
  Result<void> detach_multicast(const Gid& group);

  /// Raw packets: receives the frames that `rule` takes, in whatever state allows receiving. The rule keeps the queue
  /// pair in existence. Errors: EINVAL (another type of queue pair; the rule, naming its field), ENOMEM (max_flow),
  /// EPERM (a sniffer, through the daemon, without privilege).
  Result<Flow> create_flow(const FlowRule& rule);

 private:
  friend class Context;
  friend class CmId;
  explicit QueuePair(std::shared_ptr<client::QpImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::QpImpl> impl_;
};

}  // namespace uroce
