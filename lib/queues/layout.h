// The queue ABI: the layout, byte for byte, of the memory that an application shares with the engine.
//
// A hostile process may write all of this memory. It has no pointers: positions are free-running 32-bit indices, and
// each reader takes them modulo the ring's power-of-two size.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <uroce/types.h>

namespace uroce::queues {

/// Raise it with every change of a structure in this file.
inline constexpr uint32_t kAbiVersion = 5;
/// The oldest layout that this release can use, too.
inline constexpr uint32_t kOldestAbiVersion = 5;

/// The header of each ring. Each index has a cache line of its own, and one writer.
struct RingHeader {
  alignas(64) std::atomic<uint32_t> producer;  ///< next index to be written
  alignas(64) std::atomic<uint32_t> consumer;  ///< next index to be read
  /// Receive queues: 1 while the consumer wants a doorbell for each post (a QP in error flushes posted receives).
  /// The poster publishes and then reads this flag; the consumer sets it and then reads the ring.
  std::atomic<uint32_t> wants_doorbell;
};
static_assert(sizeof(RingHeader) == 128 && offsetof(RingHeader, consumer) == 64);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

/// One send work request. In its slot, `num_sge` Sge follow it, or `inline_length` bytes of inline data.
struct SendWqe {
  uint64_t wr_id;
  uint32_t flags;  ///< SendFlags
  uint8_t opcode;  ///< WrOpcode
  uint8_t num_sge;
  uint16_t inline_length;  ///< bytes
  uint32_t imm_or_key;     ///< immediate data (host order), the rkey to invalidate, or bind_mw: the window's new rkey
  uint32_t rkey;           ///< bind_mw: the region's lkey
  uint64_t remote_addr;    ///< bind_mw: the window's first address
  union {
    struct {
      uint64_t compare_add;  ///< FETCH_ADD: the addend; CMP_SWAP: the value to compare with
      uint64_t swap;         ///< ATOMIC WRITE: the value, in the host's byte order
    } atomic;
    struct {
      uint32_t ah;
      uint32_t dest_qpn;
      uint32_t qkey;
      uint32_t reserved;
    } ud;
    struct {
      uint64_t length;  ///< bytes
      uint32_t access;  ///< AccessFlags
      uint32_t reserved;
    } bind;
    struct {
      uint32_t length;     ///< bytes; ignored for a whole region
      uint32_t placement;  ///< PlacementFlags
      uint32_t scope;      ///< FlushScope
      uint32_t reserved;
    } placement_flush;
  };
  uint32_t remote_srqn;  ///< XRC: the peer's shared receive queue, 24 bits
  uint32_t reserved0;
  uint64_t reserved1;
};
static_assert(sizeof(SendWqe) == 64 && offsetof(SendWqe, remote_addr) == 24 && offsetof(SendWqe, atomic) == 32 &&
              offsetof(SendWqe, remote_srqn) == 48);

/// One receive work request. In its slot, `num_sge` Sge follow it.
struct RecvWqe {
  uint64_t wr_id;
  uint32_t num_sge;
  uint32_t reserved;
};
static_assert(sizeof(RecvWqe) == 16);

/// One completion.
struct Cqe {
  uint64_t wr_id;
  uint32_t qpn;
  uint32_t byte_len;
  uint32_t imm_or_key;  ///< host order
  uint32_t src_qpn;     ///< UD
  uint32_t flags;       ///< WcFlags
  uint8_t status;       ///< WcStatus
  uint8_t opcode;       ///< WcOpcode
  uint16_t pkey_index;
  uint32_t vendor_error;  ///< the reason as a wire::Drop, or 0
  uint32_t flow_tag;      ///< raw packets: FlowRule::tag
  uint64_t timestamp_ns;  ///< the engine's clock when it wrote the completion
  uint16_t vlan_tag;      ///< raw packets, UD: tag control information, or 0
  uint16_t reserved0;
  uint32_t reserved1;
  uint64_t reserved2;
};
static_assert(sizeof(Cqe) == 64 && offsetof(Cqe, status) == 28 && offsetof(Cqe, timestamp_ns) == 40 &&
              offsetof(Cqe, vlan_tag) == 48);

/// Cqe::opcode of a send work request.
constexpr WcOpcode completion_opcode(WrOpcode opcode) {
  switch (opcode) {
    case WrOpcode::rdma_write:
    case WrOpcode::rdma_write_with_imm: return WcOpcode::rdma_write;
    case WrOpcode::rdma_read: return WcOpcode::rdma_read;
    case WrOpcode::compare_swap: return WcOpcode::compare_swap;
    case WrOpcode::fetch_add: return WcOpcode::fetch_add;
    case WrOpcode::bind_mw: return WcOpcode::bind_mw;
    case WrOpcode::local_invalidate: return WcOpcode::local_invalidate;
    case WrOpcode::flush: return WcOpcode::flush;
    case WrOpcode::atomic_write: return WcOpcode::atomic_write;
    default: return WcOpcode::send;
  }
}

/// The completions that raise an event on the queue's channel (ibv_req_notify_cq(3)).
enum class Arm : uint32_t { none = 0, solicited = 1, any = 2 };

/// The header of a completion queue. The queue has one ring per engine, so that each ring has one producer.
struct CqHeader {
  alignas(64) std::atomic<uint32_t> arm;  ///< Arm; the application sets it, an engine that raises an event resets it
  std::atomic<uint32_t> fired;            ///< events raised on the channel so far; engines count, applications read
};
static_assert(sizeof(CqHeader) == 64);

/// The byte on a channel's descriptor that stands for an event of completion queue `cq`. Neighbouring numbers, which
/// the queues of a channel mostly have, differ. Older engines write 1 for all.
constexpr uint8_t event_token(uint32_t cq) { return static_cast<uint8_t>(1 + cq % UINT8_MAX); }

/// The header of a shared receive queue.
struct SrqHeader {
  alignas(64) std::atomic<uint32_t> limit;  ///< raises srq_limit_reached once when fewer receives remain; 0: disarmed
};
static_assert(sizeof(SrqHeader) == 64);

/// The receive of a shared queue that a queue pair has taken for a message of which packets are still to come. The
/// shared queue has given the slot back, because its queue pairs complete in any order. It is told in the queue pair's
/// memory, or in an XRC queue's, since its targets may be another program's. The engine writes it, and reads it never.
struct HeldRecv {
  alignas(64) std::atomic<uint64_t> wr_id;
  std::atomic<uint32_t> held;  ///< 1 while there is such a receive
  std::atomic<uint32_t> qpn;   ///< who has it
};
static_assert(sizeof(HeldRecv) == 64 && std::atomic<uint64_t>::is_always_lock_free);

inline void copy(const HeldRecv& from, HeldRecv& to) {
  to.wr_id.store(from.wr_id.load(std::memory_order_relaxed), std::memory_order_relaxed);
  to.qpn.store(from.qpn.load(std::memory_order_relaxed), std::memory_order_relaxed);
  to.held.store(from.held.load(std::memory_order_relaxed), std::memory_order_release);
}

/// Receives of one XRC queue that can be told at a time. Receives that targets hold beyond these are not flushed when
/// the daemon dies.
inline constexpr uint32_t kHeldOfXrcQueue = 64;

/// Bytes from one slot to the next, a multiple of 64.
constexpr uint32_t send_stride(uint32_t max_sge, uint32_t max_inline) {
  const uint32_t tail = max_sge * static_cast<uint32_t>(sizeof(Sge)) > max_inline
                            ? max_sge * static_cast<uint32_t>(sizeof(Sge))
                            : max_inline;
  return (static_cast<uint32_t>(sizeof(SendWqe)) + tail + 63) & ~63u;
}
constexpr uint32_t recv_stride(uint32_t max_sge) {
  return (static_cast<uint32_t>(sizeof(RecvWqe)) + max_sge * static_cast<uint32_t>(sizeof(Sge)) + 63) & ~63u;
}
/// Bytes of a whole ring with its header. `entries` is a power of two.
constexpr std::size_t ring_bytes(uint32_t entries, uint32_t stride) {
  return sizeof(RingHeader) + std::size_t{entries} * stride;
}
static_assert(send_stride(1, 0) == 128 && send_stride(kMaxSge, kMaxInline) == 576 && recv_stride(3) == 64);

}  // namespace uroce::queues
