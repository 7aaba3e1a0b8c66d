#include "dropin/rsocket/endpoint.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "dropin/common/report.h"

namespace uroce::dropin::rsocket {

namespace {

/// Acknowledge events in batches of this size.
constexpr unsigned kAcknowledgeAt = 256;

}  // namespace

int Endpoint::make(rdma_cm_id* id, Sizes& sizes) {
  id_ = id;
  ibv_device_attr device{};
  if (const int error = ibv_query_device(id->verbs, &device); error != 0) return minus_one(error);
  const uint32_t most = std::min(static_cast<uint32_t>(device.max_qp_wr), kQueueMax);
  sizes.send_queue = std::clamp(sizes.send_queue, kQueueMin, most);
  sizes.receive_queue = std::clamp(sizes.receive_queue, kQueueMin, most);
  completions_ = ibv_create_comp_channel(id->verbs);
  if (completions_ == nullptr || fcntl(completions_->fd, F_SETFL, O_NONBLOCK) != 0) return -1;
  const uint32_t entries = sizes.send_queue + sizes.receive_queue;
  cq_ = ibv_create_cq(id->verbs, static_cast<int>(entries), this, completions_, 0);
  if (cq_ == nullptr) return -1;

  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_RC;
  attr.sq_sig_all = 1;
  attr.cap = {sizes.send_queue, sizes.receive_queue, 2, 1, sizes.inline_bytes};
  if (rdma_create_qp(id, nullptr, &attr) != 0) return -1;
  sizes.inline_bytes = attr.cap.max_inline_data;
  return 0;
}

void Endpoint::release() {
  if (has_qp()) rdma_destroy_qp(id_);
  if (cq_ != nullptr) {
    ibv_ack_cq_events(cq_, unacknowledged_);
    ibv_destroy_cq(cq_);
  }
  if (completions_ != nullptr) ibv_destroy_comp_channel(completions_);
  cq_ = nullptr;
  completions_ = nullptr;
  id_ = nullptr;
}

int Endpoint::post_receive() {
  ibv_recv_wr request{};
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_->qp, &request, &bad);
  return error == 0 ? 0 : minus_one(error);
}

int Endpoint::post(std::span<ibv_sge> pieces, ibv_wr_opcode opcode, uint32_t message, bool as_inline,
                   Peer::Place place) {
  ibv_send_wr request{};
  request.wr_id = kSent | message;
  request.sg_list = pieces.data();
  request.num_sge = static_cast<int>(pieces.size());
  request.opcode = opcode;
  request.send_flags = as_inline ? IBV_SEND_INLINE : 0;
  request.imm_data = htobe32(message);
  request.wr.rdma.remote_addr = place.address;
  request.wr.rdma.rkey = place.key;
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_->qp, &request, &bad);
  return error == 0 ? 0 : minus_one(error);
}

void Endpoint::flush() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  ibv_modify_qp(id_->qp, &attr, IBV_QP_STATE);
}

Endpoint::Wait Endpoint::wait() {
  const std::lock_guard lock(event_mutex_);
  if (!armed_ || completions_ == nullptr) return Wait::nothing;  // another thread took it
  pollfd waiting{completions_->fd, POLLIN, 0};
  const auto bound = static_cast<int>(settings().wake_up_interval.count());
  if (const int found = ::poll(&waiting, 1, bound); found <= 0) return found == 0 ? Wait::nothing : Wait::interrupted;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(completions_, &cq, &context) != 0) return errno == EAGAIN ? Wait::nothing : Wait::failed;
  armed_ = false;
  if (++unacknowledged_ == kAcknowledgeAt) ibv_ack_cq_events(cq_, std::exchange(unacknowledged_, 0));
  return Wait::taken;
}

}  // namespace uroce::dropin::rsocket
