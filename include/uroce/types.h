// Verbs vocabulary: the enumerations and plain structures that every layer shares.
//
// Enumerators have the numeric values of <infiniband/verbs.h>, so that an adapter to that ABI is a cast. All integers
// are in host byte order. Everything here is a plain value: any thread may copy it.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>

#include <uroce/flags.h>

namespace uroce {

/// Largest number of scatter/gather entries in one work request.
inline constexpr uint32_t kMaxSge = 32;
/// Largest inline payload of a send work request, bytes.
inline constexpr uint32_t kMaxInline = 512;
/// Largest message of one work request, bytes (IBTA vol. 1, 9.2: 2^31).
inline constexpr uint64_t kMaxMessage = uint64_t{1} << 31;
/// Least rate that a QP can be limited to, kbit/s: below it, one packet would wait for longer than a tenth of a second.
inline constexpr uint32_t kMinRateLimit = 1000;
/// The destination QPN of a datagram to a multicast group (IBTA vol. 1, 10.5).
inline constexpr uint32_t kMulticastQpn = 0xffffff;
/// Device memory that one Context may allocate, bytes.
inline constexpr uint64_t kMaxDeviceMemory = uint64_t{16} << 20;
/// Most READs and atomics outstanding on one QP, in each direction. FLUSHes and ATOMIC WRITEs count as READs.
inline constexpr uint32_t kMaxRdAtomic = 128;

/// Service of a QP: reliable connection, unreliable connection, unreliable datagram, whole Ethernet frames, and the two
/// ends of an extended reliable connection (XRC), which sends and which receives; values of enum ibv_qp_type.
enum class QpType : uint8_t { rc = 2, uc = 3, ud = 4, raw_packet = 8, xrc_initiator = 9, xrc_target = 10 };

/// QP states (IBTA vol. 1, 10.3.1); values of enum ibv_qp_state.
enum class QpState : uint8_t { reset = 0, init = 1, rtr = 2, rts = 3, sqd = 4, sqe = 5, error = 6 };

/// Path MTU: the largest payload of one packet. The value is IBTA's code; see mtu_bytes().
enum class Mtu : uint8_t { mtu256 = 1, mtu512 = 2, mtu1024 = 3, mtu2048 = 4, mtu4096 = 5 };

/// Path MTU in bytes, 256 to 4096.
constexpr uint32_t mtu_bytes(Mtu mtu) { return 128u << static_cast<uint32_t>(mtu); }

/// How a device's frames leave this host.
enum class Sending : uint8_t {
  by_driver,         ///< as the driver of DPDK's does (DeviceInfo::driver)
  super_frames,      ///< to an interface of the kernel, runs of them as one
  single_by_kernel,  ///< one by one, because the kernel has no UDP segmentation for packet sockets (Linux 6.2 has)
  single_refused,    ///< one by one, because the kernel refused the interface's super-frames
  single_by_choice,  ///< one by one, because of super_frames=no
  by_udp_socket,     ///< by a UDP socket, because the program may open no packet socket
};

/// Rights to a region, a window, or a QP's memory (ibv_reg_mr(3)); values of enum ibv_access_flags.
enum class Access : uint32_t {
  local_write = 1u << 0,  ///< this side's receives, READs and atomics may write; reading is always allowed
  remote_write = 1u << 1,
  remote_read = 1u << 2,
  remote_atomic = 1u << 3,
  mw_bind = 1u << 4,            ///< memory windows may be bound to the region
  zero_based = 1u << 5,         ///< addresses count from 0 at the first byte
  flush_global = 1u << 8,       ///< a peer's FLUSH may make its bytes visible to all of this host
  flush_persistent = 1u << 9,   ///< a peer's FLUSH may make its bytes outlive a loss of power; no region offers that
  relaxed_ordering = 1u << 20,  ///< accepted, without effect
  /// Not in verbs.h: a peer's SEND with invalidate may end the region's key.
  remote_invalidate = 1u << 30,
};
using AccessFlags = Flags<Access>;

/// How an RC queue pair recovers lost packets.
enum class Retransmission : uint8_t {
  device_default = 0,  ///< the device's setting
  automatic = 1,       ///< selective once the peer proves to be a uroce peer, Go-Back-N until then
  go_back_n = 2,       ///< as the specification defines it (IBTA vol. 1, 9.7.5)
  selective = 3,       ///< as automatic, but a peer that does not answer is asked for ever
};

/// How an RC queue pair slows down when the network is congested.
enum class CongestionAlgorithm : uint8_t {
  device_default = 0,  ///< the device's setting
  none = 1,            ///< not at all: only the engine's window limits it
  dcqcn = 2,           ///< by rate, from ECN marks and CNPs (Zhu et al., SIGCOMM 2015)
  swift = 3,           ///< by window, from the measured delay (Kumar et al., SIGCOMM 2020)
};

/// Types of memory windows (IBTA vol. 1, 10.6.7.2). A type 1 window serves every queue pair of its domain and may be
/// bound again at any time. A type 2 window (type 2B) serves only the queue pair that bound it and must be invalidated
/// before it is bound again.
enum class WindowType : uint8_t { type1 = 1, type2 = 2 };

/// Operations of send work requests (ibv_post_send(3)); values of enum ibv_wr_opcode.
enum class WrOpcode : uint8_t {
  rdma_write = 0,
  rdma_write_with_imm = 1,
  send = 2,
  send_with_imm = 3,
  rdma_read = 4,
  compare_swap = 5,
  fetch_add = 6,
  local_invalidate = 7,
  bind_mw = 8,
  send_with_invalidate = 9,
  flush = 14,         ///< completes when the bytes of earlier WRITEs have arrived where SendRequest::flush says
  atomic_write = 15,  ///< writes eight bytes at once
};

/// Where the bytes of a FLUSH must have arrived before it completes (IBTA vol. 1, annex A19).
enum class Placement : uint32_t {
  global = 1u << 0,      ///< every processor and device of the peer's host sees them
  persistent = 1u << 1,  ///< they outlive a loss of power
};
using PlacementFlags = Flags<Placement>;

/// The bytes that a FLUSH is about.
enum class FlushScope : uint8_t {
  range = 0,   ///< those that the request names
  region = 1,  ///< the whole region of the request's key
};

/// Flags of send work requests (ibv_post_send(3)); values of enum ibv_send_flags.
enum class SendFlag : uint32_t {
  fence = 1u << 0,        ///< start after all earlier READs and atomics have completed
  signaled = 1u << 1,     ///< report success too; errors are always reported
  solicited = 1u << 2,    ///< raise the receiver's solicited completion event
  inline_data = 1u << 3,  ///< copy the payload while posting
};
using SendFlags = Flags<SendFlag>;

/// Completion status (ibv_poll_cq(3)); values of enum ibv_wc_status.
enum class WcStatus : uint8_t {
  success = 0,
  local_length_error = 1,
  local_qp_operation_error = 2,
  local_protection_error = 4,
  flushed = 5,
  mw_bind_error = 6,
  bad_response = 7,
  local_access_error = 8,
  remote_invalid_request = 9,
  remote_access_error = 10,
  remote_operation_error = 11,
  retry_exceeded = 12,
  rnr_retry_exceeded = 13,
  fatal = 19,
  general_error = 21,
};

/// The operation that completed (ibv_poll_cq(3)); values of enum ibv_wc_opcode.
enum class WcOpcode : uint8_t {
  send = 0,
  rdma_write = 1,
  rdma_read = 2,
  compare_swap = 3,
  fetch_add = 4,
  bind_mw = 5,
  local_invalidate = 6,
  flush = 8,
  atomic_write = 9,
  recv = 128,
  recv_rdma_with_imm = 129,
};

/// Contents of a completion (ibv_poll_cq(3)); values of enum ibv_wc_flags.
enum class WcFlag : uint32_t {
  grh = 1u << 0,              ///< the first 40 bytes of the buffer hold the IP header (UD)
  with_imm = 1u << 1,         ///< Completion::imm_or_key is immediate data
  with_invalidate = 1u << 3,  ///< Completion::imm_or_key is the rkey that the peer invalidated
};
using WcFlags = Flags<WcFlag>;

/// A GID: 16 bytes in network order. In RoCE v2 it is an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d (annex
/// A17).
struct Gid {
  std::array<uint8_t, 16> bytes{};

  /// The GID of an IPv4 address given in host byte order.
  static constexpr Gid from_ipv4(uint32_t address) {
    Gid gid;
    gid.bytes[10] = gid.bytes[11] = 0xff;
    for (uint32_t i = 0; i < 4; ++i) gid.bytes[12 + i] = static_cast<uint8_t>(address >> (24 - 8 * i));
    return gid;
  }
  constexpr bool is_ipv4() const {
    for (uint32_t i = 0; i < 10; ++i) {
      if (bytes[i] != 0) return false;
    }
    return bytes[10] == 0xff && bytes[11] == 0xff;
  }
  /// The IPv4 address in host byte order; meaningful only when is_ipv4() is true.
  constexpr uint32_t ipv4() const {
    return uint32_t{bytes[12]} << 24 | uint32_t{bytes[13]} << 16 | uint32_t{bytes[14]} << 8 | bytes[15];
  }
  /// ff00::/8, or 224.0.0.0/4 as ::ffff:a.b.c.d.
  constexpr bool is_multicast() const { return bytes[0] == 0xff || (is_ipv4() && (bytes[12] & 0xf0) == 0xe0); }
  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
};

/// An Ethernet address, 6 bytes as they stand in a frame.
struct EthAddr {
  std::array<uint8_t, 6> bytes{};
  constexpr bool is_multicast() const { return (bytes[0] & 1) != 0; }
  friend constexpr auto operator<=>(const EthAddr&, const EthAddr&) = default;
};

/// One scatter/gather entry; has the layout of struct ibv_sge.
struct Sge {
  uint64_t addr;    ///< first byte, by the region's addresses: virtual ones, from 0, or from its iova
  uint32_t length;  ///< bytes
  uint32_t lkey;    ///< key of the region that covers [addr, addr + length)
};
static_assert(sizeof(Sge) == 16);

/// Sizes of a queue pair's queues (struct ibv_qp_cap). 0 asks for the smallest. A created queue may be larger;
/// QueuePair::cap() has the real sizes.
struct QpCap {
  uint32_t max_send_wr = 64;     ///< send work requests outstanding
  uint32_t max_recv_wr = 64;     ///< receives posted; not used with a shared receive queue
  uint32_t max_send_sge = 1;     ///< entries of each send, at most kMaxSge
  uint32_t max_recv_sge = 1;     ///< entries of each receive, at most kMaxSge
  uint32_t max_inline_data = 0;  ///< bytes, at most kMaxInline
};

/// Destination of packets: the address vector (IBTA vol. 1, 11.2.2.1), with the fields of RoCE v2 only.
struct AddressVector {
  Gid dgid{};                 ///< the peer, or a multicast group
  uint8_t sgid_index = 0;     ///< index of this side's address in the GID table
  uint8_t hop_limit = 64;     ///< TTL of IPv4, hop limit of IPv6; 0 means 64
  uint8_t traffic_class = 0;  ///< the IP header's TOS or traffic class byte
  uint32_t flow_label = 0;    ///< 20 bits; 0 derives the UDP source port from the QPNs
};

/// The members of QpAttr that a modify call sets; values of enum ibv_qp_attr_mask.
enum class QpAttrBit : uint32_t {
  state = 1u << 0,
  cur_state = 1u << 1,
  en_sqd_async_notify = 1u << 2,
  access_flags = 1u << 3,
  pkey_index = 1u << 4,
  port = 1u << 5,
  qkey = 1u << 6,
  av = 1u << 7,
  path_mtu = 1u << 8,
  timeout = 1u << 9,
  retry_cnt = 1u << 10,
  rnr_retry = 1u << 11,
  rq_psn = 1u << 12,
  max_rd_atomic = 1u << 13,
  alt_path = 1u << 14,
  min_rnr_timer = 1u << 15,
  sq_psn = 1u << 16,
  max_dest_rd_atomic = 1u << 17,
  path_mig_state = 1u << 18,
  cap = 1u << 19,
  dest_qpn = 1u << 20,
  rate_limit = 1u << 25,
};
using QpAttrMask = Flags<QpAttrBit>;

/// Attributes of a queue pair (ibv_modify_qp(3); IBTA vol. 1, 11.2.5.2).
struct QpAttr {
  QpState state = QpState::reset;
  QpState cur_state = QpState::reset;  ///< the state that the caller assumes
  Mtu path_mtu = Mtu::mtu1024;
  uint32_t qkey = 0;      ///< UD
  uint32_t rq_psn = 0;    ///< 24 bits: first PSN to expect
  uint32_t sq_psn = 0;    ///< 24 bits: first PSN to send
  uint32_t dest_qpn = 0;  ///< 24 bits: the peer's QP
  AccessFlags access{};   ///< operations that the peer may use: remote_write, remote_read, remote_atomic,
                          ///< flush_global, flush_persistent
  QpCap cap{};
  AddressVector av{};
  uint16_t pkey_index = 0;           ///< 0: the table has one P_Key
  bool en_sqd_async_notify = false;  ///< with state SQD: raise sq_drained when the queue is empty
  uint8_t max_rd_atomic = 0;         ///< READs and atomics this side may have outstanding, 0..128
  uint8_t max_dest_rd_atomic = 0;    ///< READs and atomics the peer may have outstanding here, 0..128
  uint8_t min_rnr_timer = 0;         ///< RNR timer code 0..31 sent in an RNR NAK (IBTA vol. 1, 9.7.5.2.8)
  uint8_t port = 1;                  ///< a device has one port
  uint8_t timeout = 0;               ///< ACK timeout code 0..31: 4.096 us * 2^timeout; 0 waits for ever
  uint8_t retry_cnt = 0;             ///< 0..7 retries after a timeout or a sequence NAK
  uint8_t rnr_retry = 0;             ///< 0..6 retries after an RNR NAK; 7 retries for ever
  /// RC: most that requests send, headers and all, kbit/s: kMinRateLimit or more; 0: no limit
  /// (ibv_modify_qp_rate_limit(3)). Congestion control may allow less.
  uint32_t rate_limit = 0;
};

/// Asynchronous events (ibv_get_async_event(3)); values of enum ibv_event_type.
enum class AsyncEventType : uint8_t {
  cq_error = 0,
  qp_fatal = 1,
  qp_request_error = 2,
  qp_access_error = 3,
  communication_established = 4,
  sq_drained = 5,
  device_fatal = 8,  ///< the device's card has gone; nothing is sent or received any more
  port_active = 9,
  port_error = 10,
  srq_error = 14,
  srq_limit_reached = 15,
  last_wqe_reached = 16,
  gid_change = 18,
};

}  // namespace uroce
