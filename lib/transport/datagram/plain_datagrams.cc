#include "transport/datagram/plain_datagrams.h"

#include "transport/datagram/address_handles.h"
#include "transport/datagram/ud.h"
#include "transport/qp/memory_access.h"
#include "transport/qp/plain_wqe.h"

namespace uroce::transport {
namespace {

// The headers of a turn's datagrams.
class DatagramHeaders {
 public:
  DatagramHeaders(Context& ctx, const Qp& qp) : qp_(qp), shared_(ctx.request_headers) { shared_.begin(nullptr, 0); }

  // Writes those of `frame`, which has its payload. `more`: another one like it is likely to follow in this turn.
  void write(TxFrame& frame, const AddressHandle& handle, const SendSlot::Destination& to, Psn psn, bool more) {
    if (&handle != handle_ || to.qpn != dest_qpn_) {
      shared_.clear();
      handle_ = &handle;
      dest_qpn_ = to.qpn;
    }
    std::byte* deth = nullptr;
    if (const bool made = shared_.is_for(kOpcode, frame.payload_length); made || more) {
      if (!made) shared_.make(destination(), kOpcode, wire::Deth::kBytes, frame.payload_length, {});
      deth = shared_.write(frame, psn, false);
    } else {
      FrameBuilder::write_headers(frame, destination(), kOpcode, psn, wire::Deth::kBytes, {});
      deth = FrameBuilder::extended_headers(frame, handle.route);
    }
    wire::Deth{.qkey = qkey_to_send(qp_, to.qkey), .src_qpn = qp_.qpn}.store(deth);
    wire::set_dst_mac(frame.header.data(), handle.dst_mac.load());
  }

 private:
  static constexpr wire::Opcode kOpcode = wire::Opcode::ud_send_only;

  FrameBuilder::Destination destination() const { return destination_of(qp_, *handle_, dest_qpn_); }

  const Qp& qp_;
  FrameTemplate& shared_;
  const AddressHandle* handle_ = nullptr;  // with the QPN, whose datagrams share headers
  uint32_t dest_qpn_ = 0;
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
    const SendSlot::Destination to = slot.destination();
    const AddressHandle* const handle = ctx.handles->find(to.ah, qp.pd);
    if (handle == nullptr || to.qpn >= kMulticastQpn) return;
    const auto place = translate(ctx, qp, wqe.sge.lkey, wqe.sge.addr, wqe.sge.length, {});
    if (place.result != memory::AccessResult::ok) return;
    TxFrame& frame = ctx.builder.next(place.host, wqe.sge.length);
    // The request completes when the sink has taken the frame. Then the application may change the memory.
    frame.copy_payload = true;
    headers.write(frame, *handle, to, tx.next, left > 1);
    ctx.builder.add(frame);
    tx.sq.advance(1);
    tx.cursor.move_to(tx.sq.next());
    ++tx.next;
  }
}

}  // namespace uroce::transport
