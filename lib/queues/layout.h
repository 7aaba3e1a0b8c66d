// The queue ABI: what an application and the engine share, byte for byte. Version it, never guess it.
//
// Everything here may live in memory that another, hostile process writes. No pointers: positions are free-running
// 32-bit indices, reduced modulo the ring's power-of-two size by whoever uses them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <uroce/types.h>

namespace uroce::queues {

/// Raised by every change of a structure in this file.
inline constexpr uint32_t kAbiVersion = 1;

/// In front of each ring. The two indices stand on cache lines of their own, each with one writer.
struct RingHeader {
  alignas(64) std::atomic<uint32_t> producer;  ///< next index to be written
  alignas(64) std::atomic<uint32_t> consumer;  ///< next index to be read
  /// Receive queues: 1 while the consumer wants a doorbell for each post (a QP in error flushes what is posted).
  /// The poster publishes and then reads this; the consumer sets this and then looks at the ring.
  std::atomic<uint32_t> wants_doorbell;
};
static_assert(sizeof(RingHeader) == 128 && offsetof(RingHeader, consumer) == 64);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

/// One send work request. Followed in its slot by `num_sge` Sge, or by `inline_length` bytes with inline_data.
struct SendWqe {
  uint64_t wr_id;
  uint32_t flags;  ///< SendFlags
  uint8_t opcode;  ///< WrOpcode
  uint8_t num_sge;
  uint16_t inline_length;  ///< bytes
  uint32_t imm_or_key;     ///< immediate data (host order), the rkey to invalidate, or bind_mw: the window's new rkey
  uint32_t rkey;           ///< bind_mw: the region's lkey
  uint64_t remote_addr;    ///< bind_mw: where the window begins
  union {
    struct {
      uint64_t compare_add;  ///< FETCH_ADD: the addend; CMP_SWAP: the value compared with
      uint64_t swap;
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
  };
  uint64_t reserved[2];
};
static_assert(sizeof(SendWqe) == 64 && offsetof(SendWqe, remote_addr) == 24 && offsetof(SendWqe, atomic) == 32);

/// One receive work request, followed in its slot by `num_sge` Sge.
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
  uint32_t vendor_error;  ///< wire::Drop or 0: why, in our own words
  uint32_t reserved0;
  uint64_t timestamp_ns;  ///< engine's clock when the completion was written
  uint64_t reserved[2];
};
static_assert(sizeof(Cqe) == 64 && offsetof(Cqe, status) == 28 && offsetof(Cqe, timestamp_ns) == 40);

/// What the application asks of a completion queue's channel (ibv_req_notify_cq(3)).
enum class Arm : uint32_t { none = 0, solicited = 1, any = 2 };

/// In front of a completion queue's rings; there is one ring per engine, so that each has one producer.
struct CqHeader {
  alignas(64) std::atomic<uint32_t> arm;  ///< Arm; set by the application, taken by an engine that fires
  std::atomic<uint32_t> fired;            ///< events raised on the channel so far; engines count, applications read
};
static_assert(sizeof(CqHeader) == 64);

/// In front of a shared receive queue's ring.
struct SrqHeader {
  alignas(64) std::atomic<uint32_t> limit;  ///< fires srq_limit_reached once when fewer remain; 0 is disarmed
};
static_assert(sizeof(SrqHeader) == 64);

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
