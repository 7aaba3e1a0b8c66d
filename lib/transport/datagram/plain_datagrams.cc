#include "transport/datagram/plain_datagrams.h"

#include "transport/datagram/address_handles.h"
#include "transport/datagram/ud.h"
#include "transport/qp/memory_access.h"
#include "transport/qp/plain_wqe.h"

namespace uroce::transport {
namespace {

// The headers of a turn's datagrams, and the handles that it finds.
class DatagramHeaders {
 public:
  DatagramHeaders(Context& ctx, const Qp& qp) : handles_(*ctx.handles), qp_(qp), shared_(ctx.request_headers) {
    shared_.begin(nullptr, 0);
  }

  // Datagrams to `to` follow. False: it has no handle, or is a group.
  bool turn_to(const SendSlot::Destination& to) {
    if (handle_ != nullptr && to.ah == to_.ah && to.qpn == to_.qpn && to.qkey == to_.qkey) return true;
    shared_.clear();
    to_ = to;
    handle_ = to.qpn < kMulticastQpn ? handles_.find(to.ah, qp_.pd) : nullptr;
    return handle_ != nullptr;
  }
  // Writes those of `frame`, which has its payload. `more`: another one like it is likely to follow in this turn.
  void write(TxFrame& frame, Psn psn, bool more) {
    const bool made = shared_.is_for(kOpcode, frame.payload_length);
    if (!made && !more) {
      FrameBuilder::write_headers(frame, destination(), kOpcode, psn, wire::Deth::kBytes, {});
      return add_rest(frame.header.data(), FrameBuilder::extended_headers(frame, handle_->route));
    }
    if (!made) {
      shared_.make(destination(), kOpcode, wire::Deth::kBytes, frame.payload_length, {});
      add_rest(shared_.headers(), shared_.extended_headers());
    }
    shared_.write(frame, psn, false);
  }

 private:
  static constexpr wire::Opcode kOpcode = wire::Opcode::ud_send_only;

  FrameBuilder::Destination destination() const { return destination_of(qp_, *handle_, to_.qpn); }
  void add_rest(std::byte* headers, std::byte* deth) const {
    wire::Deth{.qkey = qkey_to_send(qp_, to_.qkey), .src_qpn = qp_.qpn}.store(deth);
    wire::set_dst_mac(headers, handle_->dst_mac.load());
  }

  const AddressHandleTable& handles_;
  const Qp& qp_;
  FrameTemplate& shared_;
  const AddressHandle* handle_ = nullptr;  // of `to_`
  SendSlot::Destination to_{};
};

}  // namespace

void transmit_plain_datagrams(Context& ctx, Qp& qp) {
  auto& tx = qp.tx;
  if (tx.cursor.index() != tx.sq.next() || tx.max_sge == 0 || ctx.handles == nullptr) return;
  const uint32_t mtu = qp.mtu();
  DatagramHeaders headers(ctx, qp);
  for (uint32_t left = fetchable(qp); left > 0 && !ctx.builder.full(); --left) {
    const PlainWqe wqe(tx.sq.slot());
    if (!wqe.is_plain(mtu) || !wqe.is_send()) return;
    SendSlot& slot = qp.slot(tx.sq.next());
    wqe.fill(slot, tx.next, 0);
    wqe.fill_operands(slot);
    if (!headers.turn_to(slot.destination())) return;
    const auto place = translate(ctx, qp, wqe.sge.lkey, wqe.sge.addr, wqe.sge.length, {});
    if (place.result != memory::AccessResult::ok) return;
    TxFrame& frame = ctx.builder.next(place.host, wqe.sge.length);
    // The request completes when the sink has taken the frame. Then the application may change the memory.
    frame.copy_payload = true;
    headers.write(frame, tx.next, left > 1);
    ctx.builder.add(frame);
    tx.sq.advance(1);
    tx.cursor.move_to(tx.sq.next());
    ++tx.next;
  }
}

}  // namespace uroce::transport
