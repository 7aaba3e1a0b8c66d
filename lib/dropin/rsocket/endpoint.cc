// A stream's queue pair and buffers, and the greetings that describe them.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dropin/common/report.h"
#include "dropin/rsocket/stream.h"

namespace uroce::dropin::rsocket {

int Stream::make_endpoint() {
  ibv_device_attr device{};
  if (const int error = ibv_query_device(id_->verbs, &device); error != 0) return minus_one(error);
  const uint32_t most = std::min(static_cast<uint32_t>(device.max_qp_wr), kQueueMax);
  sizes_.send_queue = std::clamp(sizes_.send_queue, kQueueMin, most);
  sizes_.receive_queue = std::clamp(sizes_.receive_queue, kQueueMin, most);
  completions_ = ibv_create_comp_channel(id_->verbs);
  if (completions_ == nullptr || fcntl(completions_->fd, F_SETFL, O_NONBLOCK) != 0) return -1;
  const uint32_t entries = sizes_.send_queue + sizes_.receive_queue;
  cq_ = ibv_create_cq(id_->verbs, static_cast<int>(entries), this, completions_, 0);
  if (cq_ == nullptr) return -1;

  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  attr.cap = {sizes_.send_queue, sizes_.receive_queue, 2, 1, sizes_.inline_bytes};
  if (rdma_create_qp(id_, nullptr, &attr) != 0) return -1;
  sizes_.inline_bytes = attr.cap.max_inline_data;
  if (outgoing_.make(id_->pd, sizes_) != 0 || peer_.make(id_->pd, sizes_.mappings) != 0) return -1;
  if (incoming_.make(id_->pd, sizes_) != 0) return -1;
  for (uint32_t i = 0; i < sizes_.receive_queue; ++i) {
    if (post_receive() != 0) return -1;
  }
  return 0;
}

wire::Greeting Stream::greeting() const {
  wire::Greeting out;
  out.credits = static_cast<uint16_t>(sizes_.receive_queue);
  out.buffer = incoming_.first_half();
  peer_.describe(out);
  return out;
}

void Stream::take_greeting(const wire::Greeting& peer) {
  peer_.take_greeting(peer);
  mappings_.set_entries(peer.mappings);
}

int Stream::post_receive() {
  ibv_recv_wr request{};
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_->qp, &request, &bad);
  return error == 0 ? 0 : minus_one(error);
}

void Stream::release() {
  const std::scoped_lock lock(send_mutex_, receive_mutex_, mappings_.mutex(), cq_mutex_, wait_mutex_);
  mappings_.clear();
  if (id_ != nullptr && id_->qp != nullptr) rdma_destroy_qp(id_);
  outgoing_.reset();
  peer_.reset();
  incoming_.reset();
  if (cq_ != nullptr) {
    ibv_ack_cq_events(cq_, unacknowledged_);
    ibv_destroy_cq(cq_);
  }
  if (completions_ != nullptr) ibv_destroy_comp_channel(completions_);
  if (id_ != nullptr) rdma_destroy_id(id_);
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
  if (number_ >= 0) ::close(std::exchange(number_, -1));
  arrivals_.reset();
  keepalive_.reset();
  cq_ = nullptr;
  completions_ = nullptr;
  id_ = nullptr;
  channel_ = nullptr;
}

}  // namespace uroce::dropin::rsocket
