// Why a received frame was dropped. Each reason has a counter and a stable name for people and scripts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace uroce::wire {

enum class Drop : uint8_t {
  none = 0,
  // Framing.
  truncated,          ///< shorter than the headers it announces
  not_roce,           ///< not IPv4/IPv6 UDP to port 4791
  ip_header_invalid,  ///< version, IHL or checksum
  ip_fragment,        ///< RoCE v2 frames are never fragmented (annex A17.3.1)
  ip_length,          ///< IP or UDP length disagrees with the frame or with each other
  vlan_mismatch,      ///< VLAN id is not this port's
  // Transport headers.
  bth_version,      ///< BTH TVer is not 0
  opcode_unknown,   ///< undefined or manufacturer-specific opcode
  opcode_mismatch,  ///< opcode's transport is not the QP's
  payload_length,   ///< pad or payload does not fit the opcode or the path MTU
  icrc,             ///< invariant CRC is wrong
  pkey,             ///< P_Key does not match
  // Addressing.
  address_not_ours,  ///< destination IP or MAC is not this port's
  source_not_peer,   ///< source IP is not that of the QP's peer
  peer_not_allowed,  ///< a datagram from a host that the device does not take (device.allow)
  qp_unknown,        ///< no such QP
  qp_state,          ///< the QP's state does not accept this packet
  qkey,              ///< Q_Key does not match
  // Transport state. Packet loss causes these too, so they are not always a peer's fault.
  psn_duplicate,        ///< already executed; acknowledged again where the specification says so
  psn_out_of_order,     ///< ahead of the expected PSN
  response_stale,       ///< a response or ACK outside the outstanding window
  response_unexpected,  ///< a response that matches no outstanding request
  resources_gone,       ///< a duplicate READ or atomic that the replay store no longer holds
  recv_queue_empty,     ///< unreliable service: no receive posted
  message_broken,       ///< UC: the rest of a message that lost a packet
  hello_invalid,        ///< a HELLO that is malformed, of another connection, or unexpected
  sack_invalid,         ///< a SACK that is malformed, of another connection, or acknowledges packets never sent
  seal,                 ///< out of order, without the seal of the proven uroce peer
  parking_full,         ///< out of order, and the reorder buffer is full
  remote_access,        ///< UC: the target memory is not registered, or not for this operation
  port_down,
  count,
};
inline constexpr std::size_t kDropCount = static_cast<std::size_t>(Drop::count);

/// A stable lower-case name, e.g. "icrc"; the counter's name too.
std::string_view name(Drop drop);

}  // namespace uroce::wire
