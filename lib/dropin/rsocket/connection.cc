// The life of a connection: its objects, greetings and end.
#include "dropin/rsocket/connection.h"

namespace uroce::dropin::rsocket {

int Connection::make(rdma_cm_id* id, Sizes& sizes) {
  if (endpoint_.make(id, sizes) != 0) return -1;
  inline_bytes_ = sizes.inline_bytes;
  if (outgoing_.make(id->pd, sizes) != 0 || peer_.make(id->pd, sizes.mappings) != 0) return -1;
  if (incoming_.make(id->pd, sizes) != 0) return -1;
  for (uint32_t i = 0; i < sizes.receive_queue; ++i) {
    if (endpoint_.post_receive() != 0) return -1;
  }
  return 0;
}

void Connection::release() {
  const std::scoped_lock lock(send_mutex_, receive_mutex_, mappings_.mutex(), cq_mutex_, endpoint_.event_mutex());
  mappings_.clear();
  endpoint_.release();
  outgoing_.reset();
  peer_.reset();
  incoming_.reset();
}

wire::Greeting Connection::greeting() const {
  wire::Greeting out;
  out.credits = incoming_.first_credits();
  out.buffer = incoming_.first_half();
  peer_.describe(out);
  return out;
}

void Connection::take_greeting(const wire::Greeting& peer) {
  peer_.take_greeting(peer);
  mappings_.set_entries(peer.mappings);
}

void Connection::on_disconnected() {
  if (!endpoint_.has_qp()) return;
  // The peer's last bytes may still be in the completion queue. Readers that see the end take no more from there.
  if (state_.connected()) process();
  state_.part(Phase::disconnected);
  endpoint_.flush();
}

void Connection::send_keepalive() {
  const std::lock_guard lock(cq_mutex_);
  if (!state_.connected() || !can_control()) return;
  outgoing_.take_control();
  endpoint_.post({}, IBV_WR_RDMA_WRITE, wire::message(wire::Control::keepalive), false, {});
}

}  // namespace uroce::dropin::rsocket
