// Send and receive work requests, as a program posts them. Plain values; any thread may copy them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include <uroce/types.h>

namespace uroce {

/// How WrOpcode::bind_mw binds a memory window (ibv_bind_mw(3); IBTA vol. 1, 10.6.7.2).
struct WindowBind {
  uint32_t rkey = 0;     ///< the window's new rkey: MemoryWindow::rkey() with low 8 bits of the caller's choice
  uint32_t lkey = 0;     ///< MemoryRegion::lkey() of a region with Access::mw_bind, of the window's domain
  uint64_t addr = 0;     ///< first byte of the window, by the region's addresses
  uint64_t length = 0;   ///< bytes; 0 unbinds a window of type 1
  AccessFlags access{};  ///< the peer's rights; with Access::zero_based (type 2) its addresses count from the window's
                         ///< first byte
};

/// The target of WrOpcode::flush (IBTA vol. 1, annex A19). The peer's region and queue pair must offer each
/// placement (Access::flush_global, Access::flush_persistent).
struct FlushTarget {
  uint32_t length = 0;                           ///< bytes from SendRequest::remote_addr; ignored for a whole region
  PlacementFlags placement = Placement::global;  ///< one at least
  FlushScope scope = FlushScope::range;
};

/// One send work request (ibv_post_send(3)). `sges` or `inline_data` names the payload, never both; without either the
/// message has 0 bytes. FLUSH and ATOMIC WRITE have neither. With SendFlag::inline_data posting copies the payload,
/// from `inline_data` or from the addresses in `sges`; their lkeys are ignored, and the memory need be neither
/// registered nor kept. Without the flag the memory of `sges` must not change until the work request completes. The
/// array of entries is needed only during the call.
struct SendRequest {
  uint64_t wr_id = 0;  ///< the caller's; returned in the completion
  WrOpcode opcode = WrOpcode::send;
  SendFlags flags{};
  std::span<const Sge> sges{};               ///< local memory; READs and atomics write their result here
  std::span<const std::byte> inline_data{};  ///< only with SendFlag::inline_data
  uint32_t imm_or_key = 0;                   ///< immediate data in host order, or the rkey to invalidate
  uint64_t remote_addr = 0;                  ///< the peer's address; atomics, ATOMIC WRITE: a multiple of 8
  uint32_t rkey = 0;                         ///< the peer's key for that address
  uint64_t compare_add = 0;                  ///< FETCH_ADD: the addend; CMP_SWAP: the value to compare with
  uint64_t swap = 0;                         ///< CMP_SWAP, ATOMIC WRITE: the new value, as this host stores it
  WindowBind bind{};                         ///< bind_mw
  FlushTarget flush{};                       ///< FLUSH
  // UD: the datagram's destination.
  uint32_t ah = 0;           ///< AddressHandle::id() of a handle in the queue pair's domain
  uint32_t remote_qpn = 0;   ///< 24 bits; kMulticastQpn for a multicast group
  uint32_t remote_qkey = 0;  ///< with its high bit set, the QP's own Q_Key is sent (IBTA vol. 1, 10.2.5)
  /// XRC initiator: number() of the peer's shared receive queue, 24 bits. Every operation names one (annex A14): it
  /// lends its protection domain to WRITEs, READs and atomics.
  uint32_t remote_srqn = 0;
};

/// One receive work request (ibv_post_recv(3)). The memory belongs to the engine until the request completes; the array
/// of entries is needed only during the call.
struct RecvRequest {
  uint64_t wr_id = 0;           ///< the caller's; returned in the completion
  std::span<const Sge> sges{};  ///< local memory, with Access::local_write
};

}  // namespace uroce
