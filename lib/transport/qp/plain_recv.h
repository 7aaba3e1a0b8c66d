// A receive of one entry, for the shortcuts of messages of one packet: it is looked at before it is taken, so that a
// shortcut can still leave the message to the general way (receive_queue.h).
#pragma once

#include <cstring>

#include "transport/core/context.h"
#include "transport/qp/qp.h"
#include "transport/qp/srq.h"

namespace uroce::transport {

/// The next receive of the queue pair's own queue, or of its shared one.
class PlainRecv {
 public:
  explicit PlainRecv(Qp& qp) : srq_(qp.cold->srq), ring_(srq_ != nullptr ? srq_->ring : qp.rx.rq) {
    if (ring_.entries() == 0 || ring_.available() == 0 || qp.cold->recv_sges.empty()) return;
    pd_ = srq_ != nullptr ? srq_->pd : qp.pd;
    const std::byte* const from = ring_.slot();
    std::memcpy(&wqe_, from, sizeof wqe_);
    std::memcpy(&sge_, from + sizeof wqe_, sizeof sge_);
  }

  /// Where `bytes` of a message go; nullptr: ask the general way, which finds what is different or wrong.
  std::byte* place(const Context& ctx, std::size_t bytes) const {
    // A message without bytes has no key to check.
    if (wqe_.num_sge != 1 || bytes - 1 >= sge_.length) return nullptr;
    const auto place = ctx.regions.translate(sge_.lkey, pd_, sge_.addr, bytes, Access::local_write);
    return place.result == memory::AccessResult::ok ? place.host : nullptr;
  }
  /// Takes it, and gives its slot back: the ring has room before the completion can be polled.
  void take(Context& ctx, Qp& qp) {
    qp.cold->recv_wr_id = wqe_.wr_id;
    ring_.advance(1);
    ring_.mirror(ring_.next());
    if (srq_ != nullptr) srq_->check_limit(ctx.events);
  }

 private:
  Srq* const srq_;
  queues::RingConsumer& ring_;
  memory::PdId pd_ = 0;
  queues::RecvWqe wqe_{};  // read from shared memory once
  Sge sge_{};
};

}  // namespace uroce::transport
