// Work requests that may be plain, as they stand in shared memory, and what a queue pair must be to send them in a row.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "transport/qp/qp.h"

namespace uroce::transport {

/// The members that decide whether a work request is plain, read from shared memory once.
struct PlainWqe {
  const std::byte* from;  ///< where it stands
  uint64_t kind;          ///< flags, opcode, number of entries, inline length
  Sge sge;

  explicit PlainWqe(const std::byte* from_) : from(from_) {
    std::memcpy(&kind, from + offsetof(queues::SendWqe, flags), sizeof kind);
    std::memcpy(&sge, from + sizeof(queues::SendWqe), sizeof sge);
  }
  /// A plain WRITE or SEND?
  bool is_plain(uint32_t mtu) const {
    constexpr uint64_t kFlags = (SendFlag::fence | SendFlag::solicited | SendFlag::inline_data).bits();
    constexpr uint64_t kOther = (kFlags | uint64_t{0xffff} << kOpcodeShift) & ~kSendBit;
    // An empty message has no entry to look up.
    return (kind & kOther) == uint64_t{1} << kSgesShift && sge.length - 1 < mtu;
  }
  /// Of a plain one: not a WRITE.
  bool is_send() const { return (kind & kSendBit) != 0; }
  /// The opcode of its packet, without a branch.
  wire::Opcode packet_opcode() const {
    constexpr uint64_t kWrite = static_cast<uint64_t>(wire::Opcode::rc_write_only);
    constexpr uint64_t kFactor =
        (kWrite - static_cast<uint64_t>(wire::Opcode::rc_send_only)) / (kSendBit >> kOpcodeShift);
    static_assert(kWrite - kFactor * (kSendBit >> kOpcodeShift) == static_cast<uint64_t>(wire::Opcode::rc_send_only));
    return static_cast<wire::Opcode>(kWrite - kFactor * ((kind & kSendBit) >> kOpcodeShift));
  }
  /// A plain READ or atomic?
  bool is_plain_read(uint32_t mtu) const {
    constexpr uint64_t kFlags = (SendFlag::fence | SendFlag::inline_data).bits();
    constexpr uint64_t kOther = kFlags | uint64_t{0xff} << kSgesShift;
    if ((kind & kOther) != uint64_t{1} << kSgesShift) return false;
    const WrOpcode what = opcode();
    return what == WrOpcode::rdma_read ? sge.length - 1 < mtu : is_atomic(what) && sge.length == sizeof(uint64_t);
  }
  WrOpcode opcode() const { return static_cast<WrOpcode>(kind >> kOpcodeShift & 0xff); }
  bool signaled() const { return (kind & static_cast<uint64_t>(SendFlag::signaled)) != 0; }

  /// Fills the slot of a plain one, as fetch_wqe() and the general way's start() do.
  void fill(SendSlot& slot, Psn psn, uint32_t ssn) const {
    constexpr std::size_t kShared = offsetof(SendSlot, length);
    static_assert(std::endian::native == std::endian::little && kShared == offsetof(queues::SendWqe, atomic) &&
                  offsetof(SendSlot, flags) == offsetof(queues::SendWqe, flags) &&
                  offsetof(SendSlot, opcode) == offsetof(queues::SendWqe, opcode) &&
                  offsetof(SendSlot, imm_or_key) == offsetof(queues::SendWqe, imm_or_key) &&
                  offsetof(SendSlot, rkey) == offsetof(queues::SendWqe, rkey) &&
                  offsetof(SendSlot, remote_addr) == offsetof(queues::SendWqe, remote_addr));
    std::byte* const to = reinterpret_cast<std::byte*>(&slot);
    std::memcpy(to, from, kShared);
    const uint64_t own = own_kind();
    std::memcpy(to + offsetof(SendSlot, flags), &own, sizeof own);
    slot.length = sge.length;
    slot.packets = 1;
    slot.first_psn = psn;
    slot.ssn = ssn;
    slot.sges()[0] = sge;
  }
  /// Of an operation that has them, besides.
  void fill_operands(SendSlot& slot) const {
    static_assert(sizeof(SendSlot::Operands) == sizeof(queues::SendWqe::atomic));
    std::memcpy(&slot.operands(), from + offsetof(queues::SendWqe, atomic), sizeof(SendSlot::Operands));
  }

 private:
  // As a slot has it, for a request that is started, without inline data.
  uint64_t own_kind() const { return (kind & (uint64_t{0xffff} << kOpcodeShift | 0xff)) | kStarted; }

  static constexpr uint64_t kStarted = uint64_t{1} << 8;
  static_assert(offsetof(SendSlot, started) == offsetof(SendSlot, flags) + 1);
  static constexpr uint32_t kOpcodeShift = 32;
  static constexpr uint64_t kSendBit = static_cast<uint64_t>(WrOpcode::send) << kOpcodeShift;
  static_assert(static_cast<int>(WrOpcode::rdma_write) == 0 && std::has_single_bit(kSendBit));
  static constexpr uint32_t kSgesShift = 40;
};
static_assert(offsetof(queues::SendWqe, opcode) == offsetof(queues::SendWqe, flags) + 4 &&
              offsetof(queues::SendWqe, num_sge) == offsetof(queues::SendWqe, flags) + 5);

/// May the QP send plain requests, if the next ones are plain? With neither a timeout nor a probe timer each packet
/// counts as the first after a pause.
inline bool may_send_plain(const Qp& qp) {
  const auto& tx = qp.tx;
  if (qp.type != QpType::rc || qp.state != QpState::rts || qp.paced) return false;
  if (tx.cursor.packet() != 0 || tx.sent != tx.next) return false;
  return tx.max_sge > 0 && (qp.timeout != 0 || qp.selective);
}

/// Work requests that can be fetched now: as fetch_wqe() decides one by one.
inline uint32_t fetchable(const Qp& qp) {
  const auto& sq = qp.tx.sq;
  return std::min(sq.available(), sq.entries() - (sq.next() - qp.tx.oldest));
}

}  // namespace uroce::transport
