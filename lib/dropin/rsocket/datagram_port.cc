// The queue pair of a datagram rsocket's local address.
#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <numeric>

#include "dropin/common/report.h"
#include "dropin/rdmacm/address.h"
#include "dropin/rsocket/datagram.h"

namespace uroce::dropin::rsocket {

namespace {

/// The global routing header precedes every received datagram. It is not used.
constexpr uint32_t kGrh = sizeof(ibv_grh);
constexpr uint64_t kReceived = uint64_t{1} << 32;

}  // namespace

std::unique_ptr<DatagramPort> DatagramPort::make(const Gid& ip, const Sizes& sizes) {
  auto made = std::make_unique<DatagramPort>();
  return made->set_up(ip, sizes) == 0 ? std::move(made) : nullptr;
}

int DatagramPort::set_up(const Gid& ip, const Sizes& sizes) {
  sockaddr_storage address{};
  rdmacm::to_sockaddr({ip, 0}, AF_UNSPEC, RDMA_PS_UDP, address);
  if (rdma_create_id(nullptr, &id_, nullptr, RDMA_PS_UDP) != 0) return -1;
  if (rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&address)) != 0) return -1;
  ibv_port_attr port{};
  if (ibv_query_port(id_->verbs, id_->port_num, &port) != 0) return minus_one(EIO);
  room_ = std::min<uint32_t>(kLowWater, 128u << port.active_mtu);
  const uint32_t sends = std::clamp(sizes.send_bytes / kLowWater, 1u, sizes.send_queue);
  slots_ = std::clamp(sizes.receive_bytes / kLowWater, 1u, sizes.receive_queue);

  completions_ = ibv_create_comp_channel(id_->verbs);
  if (completions_ == nullptr || fcntl(completions_->fd, F_SETFL, O_NONBLOCK) != 0) return -1;
  cq_ = ibv_create_cq(id_->verbs, static_cast<int>(sends + slots_), this, completions_, 0);
  if (cq_ == nullptr) return -1;
  ibv_qp_init_attr attr{};
  attr.send_cq = attr.recv_cq = cq_;
  attr.qp_type = IBV_QPT_UD;
  attr.sq_sig_all = 1;
  attr.cap = {sends, slots_, 1, 2, sizes.inline_bytes};
  if (rdma_create_qp(id_, nullptr, &attr) != 0) return -1;
  inline_bytes_ = attr.cap.max_inline_data;
  if (out_.make(id_->pd, std::size_t{sends} * kLowWater, IBV_ACCESS_LOCAL_WRITE) != 0) return -1;
  if (in_.make(id_->pd, std::size_t{slots_} * kLowWater + kGrh, IBV_ACCESS_LOCAL_WRITE) != 0) return -1;
  free_.resize(sends);
  std::iota(free_.begin(), free_.end(), 0);
  for (uint32_t slot = 0; slot < slots_; ++slot) {
    if (post(slot) != 0) return -1;
  }
  return 0;
}

DatagramPort::~DatagramPort() {
  const int reason = errno;
  if (id_ != nullptr && id_->qp != nullptr) rdma_destroy_qp(id_);
  out_.reset();
  in_.reset();
  if (cq_ != nullptr) ibv_destroy_cq(cq_);
  if (completions_ != nullptr) ibv_destroy_comp_channel(completions_);
  if (id_ != nullptr) rdma_destroy_id(id_);
  errno = reason;
}

int DatagramPort::send(const wire::Sender& sender, IoCursor from, ibv_ah* to, uint32_t qpn) {
  const uint32_t slot = free_.back();
  const std::span<std::byte> place(out_.data() + std::size_t{slot} * kLowWater, kLowWater);
  const std::size_t header = encode(sender, place);
  const std::size_t size = header + from.get(place.data() + header, place.size() - header);
  ibv_sge piece{reinterpret_cast<uint64_t>(place.data()), static_cast<uint32_t>(size), out_.lkey()};
  ibv_send_wr request{};
  request.wr_id = slot;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_SEND;
  request.send_flags = size <= inline_bytes_ ? IBV_SEND_INLINE : 0;
  request.wr.ud.ah = to;
  request.wr.ud.remote_qpn = qpn;
  request.wr.ud.remote_qkey = RDMA_UDP_QKEY;
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &bad); error != 0) return minus_one(error);
  free_.pop_back();
  return 0;
}

int DatagramPort::post(uint32_t slot) {
  ibv_sge pieces[2] = {{in_.address() + std::size_t{slots_} * kLowWater, kGrh, in_.lkey()},
                       {in_.address() + std::size_t{slot} * kLowWater, kLowWater, in_.lkey()}};
  ibv_recv_wr request{};
  request.wr_id = kReceived | slot;
  request.sg_list = pieces;
  request.num_sge = 2;
  ibv_recv_wr* bad = nullptr;
  const int error = ibv_post_recv(id_->qp, &request, &bad);
  return error == 0 ? 0 : minus_one(error);
}

std::optional<DatagramPort::Received> DatagramPort::take() {
  ibv_wc done{};
  while (ibv_poll_cq(cq_, 1, &done) > 0) {
    const auto slot = static_cast<uint32_t>(done.wr_id);
    if (done.wr_id < kReceived) {
      free_.push_back(slot);
    } else if (done.status == IBV_WC_SUCCESS && done.byte_len > kGrh) {
      return Received{slot, {in_.data() + std::size_t{slot} * kLowWater, done.byte_len - kGrh}};
    } else if (done.status != IBV_WC_WR_FLUSH_ERR) {
      post(slot);
    }
  }
  return std::nullopt;
}

void DatagramPort::arm() {
  if (armed_) return;
  armed_ = true;
  ibv_req_notify_cq(cq_, 0);
}

void DatagramPort::take_event() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(completions_, &cq, &context) == 0) {
    ibv_ack_cq_events(cq, 1);
    armed_ = false;
  }
}

}  // namespace uroce::dropin::rsocket
