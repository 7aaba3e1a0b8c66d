// Addresses, port spaces, parameters and events of connections: the values that the calls of <uroce/cm.h> take and
// give. Any thread may copy them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <uroce/types.h>

namespace uroce {

/// Port spaces of service ids; values of enum rdma_port_space.
enum class PortSpace : uint16_t { ipoib = 0x0002, tcp = 0x0106, udp = 0x0111, ib = 0x013f };

/// An IP address, and a port in host byte order. IPv4 is ::ffff:a.b.c.d. All zero, or ::ffff:0.0.0.0 for IPv4, is any
/// address.
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
  addrinfo_resolved = 16,  ///< raise_event() alone raises this and the next two
  addrinfo_error = 17,
  user = 18,
};

/// Terms of a connection (struct rdma_conn_param): this side's in a call, the peer's in an event, seen from this side.
struct CmParam {
  std::vector<std::byte> private_data{};  ///< connect(): at most 56 bytes (UD: 180); accept(): 196 (UD: 136)
  uint8_t responder_resources = 0;        ///< READs and atomics that this side accepts at once
  uint8_t initiator_depth = 0;            ///< READs and atomics that this side sends at once
  bool flow_control = false;              ///< end-to-end credits
  uint8_t retry_count = 7;                ///< 0..7, see QpAttr::retry_cnt
  uint8_t rnr_retry_count = 7;            ///< 0..7, see QpAttr::rnr_retry
  bool srq = false;                       ///< this side's queue pair uses a shared receive queue
  uint32_t qpn = 0;                       ///< connect() and accept(): this side's queue pair
  uint32_t qkey = 0;                      ///< UD; 0 in accept(): the port space's default (0x01234567 for udp)
  // Enhanced connection establishment (rdma_set_local_ece(3)), not of UD: carried for the programs, without effect
  // here.
  uint32_t ece_vendor = 0;   ///< 24 bits: the maker of the queue pair's device, whose options follow; 0 for none
  uint32_t ece_options = 0;  ///< asked for in connect(), agreed on in accept()
};

/// An event (struct rdma_cm_event).
struct CmEvent {
  CmEventType type{};
  uint32_t id = 0;        ///< CmId::number() of the id concerned; connect_request: of the new id
  uint32_t listener = 0;  ///< connect_request: CmId::number() of the listener
  /// 0 or a negative errno value; rejected: the reason of the REJ, positive (28: by the application; IBTA vol.
  /// 1, 12.6.7.2).
  int status = 0;
  CmParam param{};
  // UD (established, connect_request) and multicast_join: the destination for sends.
  AddressVector av{};
  uint64_t join = 0;      ///< multicast events: the token given to join()
  uint64_t argument = 0;  ///< of raise_event()
};

/// The state of an id (struct rdma_cm_id and its route).
struct CmIdInfo {
  CmAddress local{};     ///< ip is all zero while no particular address is bound
  CmAddress remote{};    ///< set once connected or resolved
  std::string device{};  ///< name of its device; empty while it has none
  Gid sgid{};
  uint8_t sgid_index = 0;
  Gid dgid{};
  Mtu mtu = Mtu::mtu1024;  ///< path MTU
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 64;
  uint8_t ack_timeout = 0;  ///< 4.096 us * 2^n
};

}  // namespace uroce
