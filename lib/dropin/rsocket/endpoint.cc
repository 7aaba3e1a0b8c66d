// A stream's queue pair and buffers, and the greetings that describe them.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "dropin/common/report.h"
#include "dropin/rsocket/stream.h"

namespace uroce::dropin::rsocket {

namespace {

constexpr bool kHostIsBigEndian = std::endian::native == std::endian::big;

}  // namespace

int Stream::make_buffers() {
  constexpr int kOurs = IBV_ACCESS_LOCAL_WRITE;
  constexpr int kPeers = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
  // A slot for each control message that is too long to be inline follows the ring of bytes.
  if (out_.make(id_->pd, sizes_.send_bytes + kControls * sizeof(wire::Target), kOurs) != 0) return -1;
  const std::size_t tables = wire::kTargets * sizeof(wire::Target) + sizes_.mappings * sizeof(wire::Mapping);
  if (tables_.make(id_->pd, tables, kPeers) != 0) return -1;
  if (in_.make(id_->pd, sizes_.receive_bytes, kPeers) != 0) return -1;
  data_.assign(sizes_.receive_queue + 1, 0);
  out_free_ = sizes_.send_bytes;
  // The greeting advertises the first half of the buffer; the second half can be advertised at once.
  in_given_ = sizes_.receive_bytes / 2;
  in_freed_ = sizes_.receive_bytes / 2;
  control_limit_ = kControls;
  requests_free_ = sizes_.send_queue - kControls;
  grant_at_ = static_cast<uint16_t>(sizes_.receive_queue / 2);
  return 0;
}

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
  if (make_buffers() != 0) return -1;
  for (uint32_t i = 0; i < sizes_.receive_queue; ++i) {
    if (post_receive() != 0) return -1;
  }
  return 0;
}

wire::Greeting Stream::greeting() const {
  wire::Greeting out;
  out.big_endian = kHostIsBigEndian;
  out.maps = true;
  out.credits = static_cast<uint16_t>(sizes_.receive_queue);
  out.mappings = sizes_.mappings;
  out.targets = {tables_.address(), tables_.rkey(), wire::kTargets};
  out.buffer = {in_.address(), in_.rkey(), sizes_.receive_bytes / 2};
  return out;
}

void Stream::take_greeting(const wire::Greeting& peer) {
  swaps_ = peer.big_endian != kHostIsBigEndian;
  remote_targets_ = peer.targets;
  remote_target_ = 1;  // the first entry is the buffer of our greeting
  remote_mappings_ = peer.targets.address + uint64_t{peer.targets.length} * sizeof(wire::Target);
  remote_mapping_count_ = peer.mappings;
  mapping_used_.assign(peer.mappings, false);
  volatile wire::Target& first = targets()[0];
  first.address = peer.buffer.address;
  first.key = peer.buffer.key;
  first.length = peer.buffer.length;
  send_limit_ = peer.credits;
}

int Stream::post_receive() {
  ibv_recv_wr request{};
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_->qp, &request, &bad);
  return error == 0 ? 0 : minus_one(error);
}

void Stream::release() {
  const std::scoped_lock lock(send_mutex_, receive_mutex_, map_mutex_, cq_mutex_, wait_mutex_);
  for (const Mapped& each : mapped_) ibv_dereg_mr(each.mr);
  mapped_.clear();
  if (id_ != nullptr && id_->qp != nullptr) rdma_destroy_qp(id_);
  out_.reset();
  tables_.reset();
  in_.reset();
  if (cq_ != nullptr) {
    ibv_ack_cq_events(cq_, unacknowledged_);
    ibv_destroy_cq(cq_);
  }
  if (completions_ != nullptr) ibv_destroy_comp_channel(completions_);
  if (id_ != nullptr) rdma_destroy_id(id_);
  if (channel_ != nullptr) rdma_destroy_event_channel(channel_);
  for (const int fd : {number_, accept_fd_, keepalive_fd_}) {
    if (fd >= 0) ::close(fd);
  }
  cq_ = nullptr;
  completions_ = nullptr;
  id_ = nullptr;
  channel_ = nullptr;
  number_ = accept_fd_ = keepalive_fd_ = -1;
}

}  // namespace uroce::dropin::rsocket
