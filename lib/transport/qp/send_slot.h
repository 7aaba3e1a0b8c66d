// A send work request as the engine processes it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include <uroce/types.h>

#include "base/psn.h"
#include "base/wr_opcodes.h"
#include "transport/loss/loss_detector.h"

namespace uroce::transport {

/// The version of snapshots (qp/snapshot.h) that came with SendSlot::as_onlies.
inline constexpr uint32_t kSnapshotWithOnlies = 10;

/// One send work request, copied out of shared memory and validated; its entries or inline bytes follow it. A request
/// of one entry without operands has one cache line.
struct SendSlot {
  // As in queues::SendWqe, whose upper flags are unused: a plain request is copied as a whole.
  uint64_t wr_id = 0;
  uint8_t flags = 0;                    ///< low bits of SendFlags
  bool started = false;                 ///< has PSNs
  bool asked_again : 1 = false;         ///< READ: more than one request packet has asked for responses
  bool as_onlies : 1 = false;           ///< WRITE of several packets: each one is a message of its own, an Only
  WcStatus status = WcStatus::success;  ///< other than success: the request fails with it when it is the oldest
  WrOpcode opcode{};
  uint8_t num_sge = 0;
  uint16_t inline_length = 0;
  uint32_t imm_or_key = 0;
  uint32_t rkey = 0;
  uint64_t remote_addr = 0;
  // The engine's own.
  uint32_t length = 0;   ///< bytes of the message
  uint32_t packets = 0;  ///< PSNs it takes; READ: response packets; local operations: none
  Psn first_psn{};
  uint32_t ssn = 0;  ///< send sequence number (IBTA vol. 1, 9.7.7.2)

  /// Few operations have these. They stand before the slot, and some operations give them other types.
  struct Operands {
    uint64_t compare_add = 0;
    uint64_t swap = 0;
  };
  Operands& operands() { return reinterpret_cast<Operands*>(this)[-1]; }
  const Operands& operands() const { return reinterpret_cast<const Operands*>(this)[-1]; }
  bool has(SendFlag flag) const { return (flags & static_cast<uint32_t>(flag)) != 0; }
  bool is_read() const { return opcode == WrOpcode::rdma_read; }
  bool is_atomic() const { return uroce::is_atomic(opcode); }
  /// Is it answered by a response, not by an ACK?
  bool has_response() const { return uroce::has_response(opcode); }
  /// READ or atomic: is the response's data for the request's buffers?
  bool is_read_or_atomic() const { return uroce::is_read_or_atomic(opcode); }
  /// FLUSH or ATOMIC WRITE: no buffers, `length` 0.
  bool is_placement() const { return uroce::is_placement(opcode); }
  /// Bind or invalidate: no packets, no PSNs.
  bool is_local() const { return uroce::is_local(opcode); }
  /// A WRITE without immediate data takes nothing of the peer but memory: no receive, no response, no credit.
  bool is_plain_write() const { return opcode == WrOpcode::rdma_write; }
  bool is_write() const { return opcode == WrOpcode::rdma_write || opcode == WrOpcode::rdma_write_with_imm; }
  /// UD: the destination.
  struct Destination {
    uint32_t ah;
    uint32_t qpn;
    uint32_t qkey;
    uint32_t reserved;
  };
  Destination destination() const { return std::bit_cast<Destination>(operands()); }
  /// bind_mw: the new range and access of the window.
  struct Bind {
    uint64_t length;
    uint32_t access;
    uint32_t reserved;
  };
  Bind bind() const { return std::bit_cast<Bind>(operands()); }
  struct PlacementFlush {
    uint32_t length;
    uint32_t placement;
    uint32_t scope;
    uint32_t reserved;
  };
  PlacementFlush placement_flush() const { return std::bit_cast<PlacementFlush>(operands()); }
  /// Are the operands in use, in place of imm_or_key?
  bool has_operands() const { return is_atomic() || is_placement(); }
  /// XRC: the peer's shared receive queue. It shares the storage of what the operation does not have: immediate data or
  /// operands.
  uint32_t remote_srqn() const { return has_operands() ? imm_or_key : static_cast<uint32_t>(operands().compare_add); }
  void set_remote_srqn(uint32_t number) {
    if (has_operands()) {
      imm_or_key = number;
    } else if (!is_local()) {
      operands().compare_add = number;
    }
  }
  bool takes_recv() const { return uroce::takes_recv(opcode); }
  Psn end_psn() const { return first_psn + packets; }  ///< one past its last PSN
  RequestSpan span() const { return {first_psn, end_psn(), is_read(), has_response()}; }
  Sge* sges() { return reinterpret_cast<Sge*>(this + 1); }
  const Sge* sges() const { return reinterpret_cast<const Sge*>(this + 1); }
  std::byte* inline_data() { return reinterpret_cast<std::byte*>(this + 1); }
};
static_assert(sizeof(SendSlot) + sizeof(Sge) == 64);

}  // namespace uroce::transport
