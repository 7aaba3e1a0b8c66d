// Verbs vocabulary: the enumerations and plain structures every layer shares.
//
// Enumerators carry the numeric values of <infiniband/verbs.h>, so that an adapter to that ABI is a cast.
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
/// The QPN that datagrams to a multicast group are for.
inline constexpr uint32_t kMulticastQpn = 0xffffff;
/// Largest number of READs and atomics outstanding on one QP, each side.
inline constexpr uint32_t kMaxRdAtomic = 128;

enum class QpType : uint8_t { rc = 2, uc = 3, ud = 4 };

/// QP states (IBTA vol. 1, 10.3.1).
enum class QpState : uint8_t { reset = 0, init = 1, rtr = 2, rts = 3, sqd = 4, sqe = 5, error = 6 };

/// Path MTU: the largest payload of one packet. The value is IBTA's code; see mtu_bytes().
enum class Mtu : uint8_t { mtu256 = 1, mtu512 = 2, mtu1024 = 3, mtu2048 = 4, mtu4096 = 5 };

/// Path MTU in bytes, 256 to 4096.
constexpr uint32_t mtu_bytes(Mtu mtu) { return 128u << static_cast<uint32_t>(mtu); }

enum class Access : uint32_t {
  local_write = 1u << 0,
  remote_write = 1u << 1,
  remote_read = 1u << 2,
  remote_atomic = 1u << 3,
  mw_bind = 1u << 4,
  zero_based = 1u << 5,
  relaxed_ordering = 1u << 20,
  /// Not in verbs.h: a peer's SEND with invalidate may end the region's key.
  remote_invalidate = 1u << 30,
};
using AccessFlags = Flags<Access>;

/// How an RC queue pair recovers lost packets.
enum class Retransmission : uint8_t {
  device_default = 0,  ///< as its device is set
  automatic = 1,       ///< selective where the peer turns out to understand it, else Go-Back-N
  go_back_n = 2,       ///< as the specification has it (IBTA vol. 1, 9.7.5)
  selective = 3,       ///< as automatic, and the peer is asked again for as long as it does not answer
};

/// What slows an RC queue pair down when the network is congested.
enum class CongestionAlgorithm : uint8_t {
  device_default = 0,  ///< as its device is set
  none = 1,            ///< its window alone
  dcqcn = 2,           ///< rate, by ECN marks and CNPs (Zhu et al., SIGCOMM 2015)
  swift = 3,           ///< window, by delay (Kumar et al., SIGCOMM 2020)
};

/// Types of memory windows (IBTA vol. 1, 10.6.7.2): type 1 is used by any queue pair of its domain and bound anew at
/// will; type 2 by the one that bound it, and it is invalidated before it is bound again.
enum class WindowType : uint8_t { type1 = 1, type2 = 2 };

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
};

enum class SendFlag : uint32_t {
  fence = 1u << 0,
  signaled = 1u << 1,
  solicited = 1u << 2,
  inline_data = 1u << 3,
};
using SendFlags = Flags<SendFlag>;

/// Completion status (ibv_poll_cq(3)).
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

enum class WcOpcode : uint8_t {
  send = 0,
  rdma_write = 1,
  rdma_read = 2,
  compare_swap = 3,
  fetch_add = 4,
  bind_mw = 5,
  local_invalidate = 6,
  recv = 128,
  recv_rdma_with_imm = 129,
};

enum class WcFlag : uint32_t {
  grh = 1u << 0,
  with_imm = 1u << 1,
  with_invalidate = 1u << 3,
};
using WcFlags = Flags<WcFlag>;

/// A 16-byte GID. For RoCE v2 it is an IPv6 address, or an IPv4 address as ::ffff:a.b.c.d.
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
  /// The IPv4 address in host byte order; meaningful only where is_ipv4().
  constexpr uint32_t ipv4() const {
    return uint32_t{bytes[12]} << 24 | uint32_t{bytes[13]} << 16 | uint32_t{bytes[14]} << 8 | bytes[15];
  }
  /// ff00::/8, or 224.0.0.0/4 as ::ffff:a.b.c.d.
  constexpr bool is_multicast() const { return bytes[0] == 0xff || (is_ipv4() && (bytes[12] & 0xf0) == 0xe0); }
  friend constexpr auto operator<=>(const Gid&, const Gid&) = default;
};

struct EthAddr {
  std::array<uint8_t, 6> bytes{};
  constexpr bool is_multicast() const { return (bytes[0] & 1) != 0; }
  friend constexpr auto operator<=>(const EthAddr&, const EthAddr&) = default;
};

/// One scatter/gather entry; same layout as struct ibv_sge.
struct Sge {
  uint64_t addr;    ///< first byte, as a virtual address of the process that registered it
  uint32_t length;  ///< bytes
  uint32_t lkey;    ///< key of the region that covers [addr, addr + length)
};
static_assert(sizeof(Sge) == 16);

/// What a queue pair can hold. Zero asks for the smallest; created queues may be larger and report so.
struct QpCap {
  uint32_t max_send_wr = 64;
  uint32_t max_recv_wr = 64;
  uint32_t max_send_sge = 1;
  uint32_t max_recv_sge = 1;
  uint32_t max_inline_data = 0;  ///< bytes
};

/// Where a QP's packets go: the address vector (IBTA vol. 1, 11.2.2.1), RoCE v2 fields only.
struct AddressVector {
  Gid dgid{};
  uint8_t sgid_index = 0;
  uint8_t hop_limit = 64;
  uint8_t traffic_class = 0;
  uint32_t flow_label = 0;  ///< 20 bits; 0 derives the UDP source port from the QPNs
};

/// Which members of QpAttr a modify call sets; values of enum ibv_qp_attr_mask.
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
};
using QpAttrMask = Flags<QpAttrBit>;

/// Attributes of a queue pair (ibv_modify_qp(3)).
struct QpAttr {
  QpState state = QpState::reset;
  QpState cur_state = QpState::reset;
  Mtu path_mtu = Mtu::mtu1024;
  uint32_t qkey = 0;
  uint32_t rq_psn = 0;  ///< 24 bits: first PSN expected
  uint32_t sq_psn = 0;  ///< 24 bits: first PSN sent
  uint32_t dest_qpn = 0;
  AccessFlags access{};
  QpCap cap{};
  AddressVector av{};
  uint16_t pkey_index = 0;
  bool en_sqd_async_notify = false;
  uint8_t max_rd_atomic = 0;       ///< READs and atomics this side may have outstanding, 0..128
  uint8_t max_dest_rd_atomic = 0;  ///< READs and atomics the peer may have outstanding here, 0..128
  uint8_t min_rnr_timer = 0;       ///< RNR timer code 0..31 sent in an RNR NAK
  uint8_t port = 1;
  uint8_t timeout = 0;    ///< ACK timeout code 0..31: 4.096 us * 2^timeout; 0 waits for ever
  uint8_t retry_cnt = 0;  ///< 0..7
  uint8_t rnr_retry = 0;  ///< 0..6; 7 retries for ever
};

/// Asynchronous events (ibv_get_async_event(3)); values of enum ibv_event_type.
enum class AsyncEventType : uint8_t {
  cq_error = 0,
  qp_fatal = 1,
  qp_request_error = 2,
  qp_access_error = 3,
  communication_established = 4,
  sq_drained = 5,
  port_active = 9,
  port_error = 10,
  srq_error = 14,
  srq_limit_reached = 15,
  last_wqe_reached = 16,
  gid_change = 18,
};

}  // namespace uroce
