// Connections the way rdma_cm(7) makes them, through the daemon: ids that are bound, resolved, connected and accepted,
// and channels that tell how it went. What arrives is told by events alone; calls do not wait for the network.
//
// Ownership: CmChannel and CmId are move-only handles; destroying one gives the thing up, and an id that is connected
// is disconnected. An id keeps its channel alive. Threads: any, also on one object at once.
// Errors: besides what is named at each call, ENODEV (the daemon is gone), EINVAL (not in a state for it).
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

#include <uroce/daemon.h>
#include <uroce/error.h>
#include <uroce/export.h>
#include <uroce/types.h>

namespace uroce {

namespace client {
class CmImpl;
class CmChannelImpl;
class CmIdImpl;
}  // namespace client

/// The service ids' port spaces; values of enum rdma_port_space.
enum class PortSpace : uint16_t { ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f };

/// An IP address and a port, host order. IPv4 is ::ffff:a.b.c.d; all zero (or ::ffff:0.0.0.0 for IPv4) is any address.
struct CmAddress {
  Gid ip{};
  uint16_t port = 0;
  friend bool operator==(const CmAddress&, const CmAddress&) = default;
};

/// Values of enum rdma_cm_event_type.
enum class CmEventType : uint8_t {
  addr_resolved = 0,
  addr_error = 1,
  route_resolved = 2,
  route_error = 3,
  connect_request = 4,
  connect_response = 5,
  connect_error = 6,
  unreachable = 7,
  rejected = 8,
  established = 9,
  disconnected = 10,
  device_removal = 11,
  multicast_join = 12,
  multicast_error = 13,
  addr_change = 14,
  timewait_exit = 15,
};

/// Both sides' terms (struct rdma_conn_param); in an event, the peer's, seen from here.
struct CmParam {
  std::vector<std::byte> private_data{};  ///< at most 56 bytes to connect (UD: 180), 196 to accept (UD: 136)
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  bool flow_control = false;
  uint8_t retry_count = 7;
  uint8_t rnr_retry_count = 7;
  bool srq = false;
  uint32_t qpn = 0;   ///< connecting and accepting: of the queue pair of this side
  uint32_t qkey = 0;  ///< UD; 0 in accept() means the port space's own (0x01234567 for udp)
};

/// What happened (struct rdma_cm_event).
struct CmEvent {
  CmEventType type{};
  uint32_t id = 0;        ///< CmId::number() of whom it concerns; of a connect_request, the new id's
  uint32_t listener = 0;  ///< connect_request: CmId::number() of the listener
  /// 0, a negative errno value, or (rejected) the REJ reason, a positive number (28: by the application).
  int status = 0;
  CmParam param{};
  // UD (established, connect_request) and multicast_join: where to send to.
  AddressVector av{};
  uint64_t join = 0;  ///< multicast events: the token given to join()
};

/// What is known of an id (rdma_cm_id and its route).
struct CmIdInfo {
  CmAddress local{};     ///< ip all zero while bound to no particular one
  CmAddress remote{};    ///< of a connected or resolved id
  std::string device{};  ///< empty while it belongs to none
  Gid sgid{};
  uint8_t sgid_index = 0;
  Gid dgid{};
  Mtu mtu = Mtu::mtu1024;  ///< of the path
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint8_t ack_timeout = 0;  ///< 4.096 us * 2^n
};

/// An event channel (rdma_create_event_channel(3)).
class UROCE_API CmChannel {
 public:
  CmChannel(CmChannel&&) noexcept = default;
  CmChannel& operator=(CmChannel&&) noexcept = default;

  /// Polls readable while an event waits; take events with take(), never by reading it. Owned by the channel.
  int fd() const;
  /// The next event; nullopt when none waits. Events of ids that were destroyed or have left are skipped. The
  /// daemon's end is told as device_removal, once to each id.
  std::optional<CmEvent> take();
  /// The next event, waiting for at most `timeout` (max() waits for ever).
  std::optional<CmEvent> wait(std::chrono::nanoseconds timeout);

 private:
  friend class CmId;
  friend class ConnectionManager;
  explicit CmChannel(std::shared_ptr<client::CmChannelImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::CmChannelImpl> impl_;
};

/// An endpoint of communication (rdma_create_id(3)).
class UROCE_API CmId {
 public:
  CmId(CmId&&) noexcept = default;
  CmId& operator=(CmId&&) noexcept = default;

  /// Unique within the ConnectionManager while it is open; never 0, and never used again.
  uint32_t number() const;
  Result<CmIdInfo> info() const;

  /// rdma_bind_addr(3). Port 0 takes a free one. Errors: EADDRINUSE, EADDRNOTAVAIL (no device has the address), EACCES.
  Result<void> bind(const CmAddress& local);
  /// rdma_resolve_addr(3): binds to `local` (or what suits), and finds the way to `remote`; addr_resolved or addr_error
  /// (-EHOSTUNREACH, -ENETUNREACH, -ETIMEDOUT) follows within `timeout`.
  Result<void> resolve_addr(const std::optional<CmAddress>& local, const CmAddress& remote,
                            std::chrono::milliseconds timeout);
  /// rdma_resolve_route(3): route_resolved or route_error follows.
  Result<void> resolve_route(std::chrono::milliseconds timeout);
  /// rdma_listen(3). `backlog` 0 takes the default. Binds to a free port where it is not bound.
  Result<void> listen(int backlog);
  /// rdma_connect(3): connect_response, unreachable, rejected or connect_error follows; established (UD) too. After
  /// connect_response the caller brings its queue pair to RTS and calls establish().
  /// Errors: EINVAL (private data too long).
  Result<void> connect(const CmParam& param);
  /// Sends the RTU (rdma_establish(3)); the connection is then established, without an event.
  Result<void> establish();
  /// rdma_accept(3), of an id that came with connect_request, its queue pair in RTR and RTS: established follows.
  Result<void> accept(const CmParam& param);
  /// rdma_reject(3), at most 148 bytes (UD: 136); reason 28, or 35 (vendor option not supported) for ECE.
  Result<void> reject(std::span<const std::byte> private_data, uint8_t reason = 28);
  /// rdma_disconnect(3): disconnected follows.
  Result<void> disconnect();
  /// rdma_notify(3) with IBV_EVENT_COMM_EST: packets came before the RTU.
  Result<void> notify_established();
  /// Attributes that bring this connection's queue pair to `state`: init, rtr or rts (rdma_init_qp_attr(3)).
  Result<std::pair<QpAttr, QpAttrMask>> qp_attr(QpState state) const;
  /// Options of rdma_set_option(3), before what they concern.
  Result<void> set_type_of_service(uint8_t tos);
  Result<void> set_reuse_address(bool on);
  Result<void> set_af_only(bool on);
  Result<void> set_ack_timeout(uint8_t code);
  /// rdma_join_multicast_ex(3) on a UD id that belongs to a device: multicast_join (with av, qpn and qkey) or
  /// multicast_error follows, with `token`. To receive what is sent to the group, the caller attaches its queue pair,
  /// which tells the link.
  Result<void> join(const CmAddress& group, uint64_t token);
  Result<void> leave(const CmAddress& group);
  /// Its events go to `channel` from now on, those that nobody took included (rdma_migrate_id(3)).
  Result<void> migrate(const CmChannel& channel);

 private:
  friend class ConnectionManager;
  explicit CmId(std::shared_ptr<client::CmIdImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::CmIdImpl> impl_;
};

/// A connection to the daemon's connection manager. One serves a whole process.
class UROCE_API ConnectionManager {
 public:
  /// Errors: as daemon_devices().
  static Result<ConnectionManager> open(const DaemonOptions& options = {});
  ConnectionManager(ConnectionManager&&) noexcept = default;
  ConnectionManager& operator=(ConnectionManager&&) noexcept = default;

  /// Errors: EMFILE, ENOMEM (the daemon's limits).
  Result<CmChannel> create_channel();
  /// `type` rc, uc or ud.
  Result<CmId> create_id(const CmChannel& channel, PortSpace space, QpType type);
  /// The id that came with a connect_request, once; it is on the channel that told it. Errors: EINVAL (no such request,
  /// or its channel is gone). An id that nobody adopts stays until the manager goes.
  Result<CmId> adopt(const CmEvent& request);

 private:
  explicit ConnectionManager(std::shared_ptr<client::CmImpl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<client::CmImpl> impl_;
};

}  // namespace uroce
