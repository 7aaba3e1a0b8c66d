#include "transport/rc/plain_requests.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>

#include "transport/qp/memory_access.h"
#include "transport/qp/peer_frame.h"
#include "transport/qp/send_window.h"
#include "transport/rc/ack_timer.h"
#include "transport/rc/request_packets.h"

namespace uroce::transport {
namespace {

/// The members that decide whether a work request is plain, read from shared memory once.
struct PlainWqe {
  uint64_t kind;  ///< flags, opcode, number of entries, inline length
  Sge sge;

  explicit PlainWqe(const std::byte* from) {
    std::memcpy(&kind, from + offsetof(queues::SendWqe, flags), sizeof kind);
    std::memcpy(&sge, from + sizeof(queues::SendWqe), sizeof sge);
  }
  bool is_plain(uint32_t mtu) const {
    constexpr uint64_t kFlags = (SendFlag::fence | SendFlag::solicited | SendFlag::inline_data).bits();
    constexpr uint64_t kOther = (kFlags | uint64_t{0xffff} << kOpcodeShift) & ~kSendBit;
    // An empty message has no entry to look up.
    return (kind & kOther) == uint64_t{1} << kSgesShift && sge.length - 1 < mtu;
  }
  /// Of a plain one: not a WRITE.
  bool is_send() const { return (kind & kSendBit) != 0; }
  /// As a slot has it, for a request that is started, without inline data.
  uint64_t own_kind() const { return (kind & (uint64_t{0xffff} << kOpcodeShift | 0xff)) | kStarted; }
  bool signaled() const { return (kind & static_cast<uint64_t>(SendFlag::signaled)) != 0; }

  static constexpr uint64_t kStarted = uint64_t{1} << 8;
  static_assert(offsetof(SendSlot, started) == offsetof(SendSlot, flags) + 1);
  static constexpr uint32_t kOpcodeShift = 32;
  static constexpr uint64_t kSendBit = static_cast<uint64_t>(WrOpcode::send) << kOpcodeShift;
  static_assert(static_cast<int>(WrOpcode::rdma_write) == 0 && std::has_single_bit(kSendBit));
  static constexpr uint32_t kSgesShift = 40;
};
static_assert(offsetof(queues::SendWqe, opcode) == offsetof(queues::SendWqe, flags) + 4 &&
              offsetof(queues::SendWqe, num_sge) == offsetof(queues::SendWqe, flags) + 5);

// With neither a timeout nor a probe timer each packet counts as the first after a pause.
// The caller has asked plain_may_be_next().
bool may_send_plain(const Qp& qp) {
  const auto& tx = qp.tx;
  if (qp.type != QpType::rc || qp.state != QpState::rts || qp.paced) return false;
  if (tx.cursor.packet() != 0 || tx.sent != tx.next) return false;
  return tx.max_sge > 0 && (qp.timeout != 0 || qp.selective);
}

// Work requests that can be fetched now: as fetch_wqe() decides one by one.
uint32_t fetchable(const Qp& qp) {
  const auto& sq = qp.tx.sq;
  return std::min(sq.available(), sq.entries() - (sq.next() - qp.tx.oldest));
}

// Packets that may still be sent; negative after the window became smaller.
int32_t room_in_window(const Qp& qp) {
  const auto& tx = qp.tx;
  return static_cast<int32_t>(tx.window) - distance(tx.next, tx.una);
}

// As fetch_wqe() and start(), in one.
void fill_slot(SendSlot& slot, const PlainWqe& wqe, const std::byte* from, Psn psn, uint32_t ssn) {
  constexpr std::size_t kShared = offsetof(SendSlot, length);
  static_assert(std::endian::native == std::endian::little && kShared == offsetof(queues::SendWqe, remote_srqn) &&
                offsetof(SendSlot, flags) == offsetof(queues::SendWqe, flags) &&
                offsetof(SendSlot, opcode) == offsetof(queues::SendWqe, opcode) &&
                offsetof(SendSlot, imm_or_key) == offsetof(queues::SendWqe, imm_or_key) &&
                offsetof(SendSlot, rkey) == offsetof(queues::SendWqe, rkey) &&
                offsetof(SendSlot, remote_addr) == offsetof(queues::SendWqe, remote_addr) &&
                offsetof(SendSlot, compare_add) == offsetof(queues::SendWqe, atomic));
  std::byte* const to = reinterpret_cast<std::byte*>(&slot);
  std::memcpy(to, from, kShared);
  const uint64_t kind = wqe.own_kind();
  std::memcpy(to + offsetof(SendSlot, flags), &kind, sizeof kind);
  slot.length = wqe.sge.length;
  slot.packets = 1;
  slot.first_psn = psn;
  slot.ssn = ssn;
  slot.sges()[0] = wqe.sge;
}

/// The packets of a turn. Several of one kind and length share their headers.
class PlainPackets {
 public:
  PlainPackets(Context& ctx, Qp& qp)
      : ctx_(ctx), qp_(qp), headers_(ctx.turn_headers), same_path_(!qp.selective || !ctx.builder.sprays()) {
    headers_.clear();
  }

  /// `last`: none follows in this turn. Returns whether the window may have changed.
  bool emit(const SendSlot& slot, bool send, const std::byte* payload, bool ack_request, bool last) {
    const auto opcode = send ? wire::Opcode::rc_send_only : wire::Opcode::rc_write_only;
    const Psn psn = slot.first_psn;
    TxFrame& frame = ctx_.builder.next();
    ctx_.builder.add_payload(frame, payload, slot.length);
    if (!headers_.is_for(opcode, slot.length) && !last && same_path_) {
      headers_.make(peer_of(ctx_.builder, qp_, psn), opcode, send ? 0 : wire::Reth::kBytes, slot.length,
                    {.ecn = qp_.ecn, .seal = qp_.seal});
    }
    std::byte* extended = nullptr;
    if (headers_.is_for(opcode, slot.length)) {
      extended = headers_.write(frame, psn, ack_request);
    } else {
      FrameBuilder::write_headers(frame, peer_of(ctx_.builder, qp_, psn), opcode, psn, send ? 0 : wire::Reth::kBytes,
                                  {.ack_request = ack_request, .ecn = qp_.ecn, .seal = qp_.seal});
      extended = FrameBuilder::extended_headers(frame, *qp_.route);
    }
    // Behind a SEND's headers these bytes are not sent.
    wire::Reth{slot.remote_addr, slot.rkey, slot.length}.store(extended);
    ctx_.builder.add(frame);
    const bool changed = make_room(ctx_, qp_, psn);
    qp_.tx.recovery->loss.on_sent(psn, false, ctx_.now);
    return changed;
  }

 private:
  Context& ctx_;
  Qp& qp_;
  FrameTemplate& headers_;
  bool same_path_;
};

}  // namespace

Outcome transmit_plain_requests(Context& ctx, Qp& qp) {
  if (!may_send_plain(qp)) return {};
  auto& tx = qp.tx;
  uint32_t left = fetchable(qp);
  if (left == 0) return {};
  const uint32_t mtu = qp.mtu();
  uint32_t interval = ack_request_interval(qp);
  int32_t room = room_in_window(qp);
  const Psn first = tx.next;
  PlainPackets packets(ctx, qp);
  PlainWqe wqe(tx.sq.slot());
  for (bool plain = wqe.is_plain(mtu); plain && room > 0 && !ctx.builder.full();) {
    if (left == 1) left = fetchable(qp);
    const bool last = left == 1;
    const PlainWqe after = last ? wqe : PlainWqe(tx.sq.slot(1));
    plain = after.is_plain(mtu);
    if (!plain) break;  // Whether this one asks for an ACK depends on one that is not plain.
    if (wqe.is_send() && tx.credits.next_exceeds()) break;
    const auto place = translate(ctx, qp, wqe.sge.lkey, wqe.sge.addr, wqe.sge.length, {});
    if (place.result != memory::AccessResult::ok) break;
    SendSlot& slot = qp.slot(tx.sq.next());
    fill_slot(slot, wqe, tx.sq.slot(), tx.next, tx.credits.next_message());
    const bool more_follows = !last && --room > 0 && !(after.is_send() && tx.credits.next_exceeds());
    const bool ack_request = ack_request_is_due(ctx, qp, interval) || wqe.signaled() || qp.signal_all || !more_follows;
    if (ack_request) note_ack_request(ctx, qp);
    const bool window_changed = packets.emit(slot, wqe.is_send(), place.host, ack_request, last);
    tx.sq.advance(1);
    tx.cursor.move_to(tx.sq.next());
    tx.sent = ++tx.next;
    if (window_changed) [[unlikely]] {
      interval = ack_request_interval(qp);
      room = room_in_window(qp);
    }
    if (last) break;
    wqe = after;
    --left;
  }
  return tx.next == first ? Outcome{} : begin_waiting(ctx, qp);
}

}  // namespace uroce::transport
