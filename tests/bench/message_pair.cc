#include "tests/bench/message_pair.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/bytes.h"
#include "transport/datagram/grh.h"
#include "wire/icrc.h"

namespace uroce::bench {
namespace {

constexpr Nanos kOneWay{500};
constexpr Nanos kEmptyPoll{50};
constexpr uint32_t kFirstQpn = 0x10;  // below are those of the connection manager
/// Rounds until everything rests. Only retransmission or discovery needs more than a few.
constexpr int kPatience = 100'000;

/// As test::require(), but makes no string where nothing is wrong.
void require(bool condition, const char* what) {
  if (!condition) test::require(false, what);
}

test::EndpointOptions endpoint_options(const Traffic& traffic, uint32_t host) {
  test::EndpointOptions options;
  options.engine.max_qps = std::bit_ceil(2 * traffic.queue_pairs + kFirstQpn);
  options.engine.long_windows = transport::EngineConfig{}.long_windows;
  options.engine.settings.retransmission = traffic.retransmission;
  options.engine.settings.congestion.algorithm = traffic.congestion;
  options.gid = Gid::from_ipv4(0x0a000000 + host);
  options.keeps_recording = traffic.recorded;
  return options;
}

WrOpcode opcode_of(Operation operation) {
  switch (operation) {
    case Operation::nothing:
    case Operation::write: return WrOpcode::rdma_write;
    case Operation::read: return WrOpcode::rdma_read;
    case Operation::atomic: return WrOpcode::fetch_add;
    case Operation::send:
    case Operation::ud_send: break;
  }
  return WrOpcode::send;
}

bool needs_receives(Operation operation) { return operation == Operation::send || operation == Operation::ud_send; }

}  // namespace

void MemorySink::send(std::span<const transport::TxFrame> frames) {
  for (const auto& frame : frames) {
    std::byte* at = memory_.get() + used_ * kSlotBytes;
    std::memcpy(at, frame.header.data(), frame.header.size());
    auto icrc = frame.begin_icrc();
    std::byte* to = at + frame.header_length;
    for (uint32_t i = 0; i < frame.payload_spans; ++i) {
      icrc.copy(to, {frame.payload[i].data, frame.payload[i].length});
      to += frame.payload[i].length;
    }
    frames_[used_++] = {{at, icrc.finish(to, frame.pad)}};
  }
}

std::span<const transport::RxFrame> MemorySink::take() {
  const std::size_t n = used_;
  used_ = 0;
  return {frames_.data(), n};
}

MessagePair::MessagePair(const Traffic& traffic)
    : traffic_(traffic),
      depth_(std::max(4 * traffic.batch / traffic.queue_pairs, 8u)),
      left_(endpoint_options(traffic, 1)),
      right_(endpoint_options(traffic, 2)) {
  if (traffic.outlivable) {
    left_.engine().mark_steps();
    right_.engine().mark_steps();
  }
  local_rightward_.set_receiver(right_.engine());
  local_leftward_.set_receiver(left_.engine());
  send_cq_ = &left_.make_cq(4096);
  recv_cq_ = &right_.make_cq(4096);
  const std::size_t region = std::size_t{traffic.bytes} + transport::kGrhBytes;
  source_ = &left_.make_region(region, test::kAllAccess);
  target_ = &right_.make_region(region, test::kAllAccess);
  make_queue_pairs();
  make_request();
}

void MessagePair::make_queue_pairs() {
  const bool datagrams = traffic_.operation == Operation::ud_send;
  const bool receives = needs_receives(traffic_.operation);
  test::TestQp::Options own{.type = datagrams ? QpType::ud : QpType::rc,
                            .cap = {.max_send_wr = depth_, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
                            .send_cq = send_cq_,
                            .recv_cq = send_cq_};
  test::TestQp::Options peer = own;
  peer.cap = {.max_send_wr = 1, .max_recv_wr = depth_, .max_send_sge = 1, .max_recv_sge = 1};
  peer.send_cq = peer.recv_cq = recv_cq_;
  if (traffic_.shared) peer.srq = &right_.make_srq(depth_ * traffic_.queue_pairs, 1);
  receive_sge_ = target_->sge(0, traffic_.bytes + (datagrams ? transport::kGrhBytes : 0));
  for (uint32_t i = 0; i < traffic_.queue_pairs; ++i) {
    own.qpn = peer.qpn = kFirstQpn + i;
    from_.push_back(&left_.make_qp(own));
    to_.push_back(&right_.make_qp(peer));
    const test::ConnectOptions options{.dest_qpn = own.qpn, .mtu = Mtu::mtu4096};
    from_[i]->connect(options, left_.route_to(right_));
    to_[i]->connect(options, right_.route_to(left_));
    for (uint32_t n = 0; receives && n < depth_; ++n) post_receive(i);
  }
}

void MessagePair::make_request() {
  sge_ = source_->sge(0, traffic_.bytes);
  request_ = {.wr_id = 1, .opcode = opcode_of(traffic_.operation), .sges = {&sge_, 1}};
  if (traffic_.operation == Operation::ud_send) {
    request_.ah = left_.make_ah(left_.route_to(right_));
    request_.remote_qkey = test::ConnectOptions{}.qkey;
  } else if (traffic_.operation != Operation::send) {
    request_.remote_addr = target_->va();
    request_.rkey = target_->key();
    request_.compare_add = 1;
  }
}

void MessagePair::post_receive(uint32_t index) {
  require(to_[index]->post_recv({index, {&receive_sge_, 1}}), "a receive queue is full");
}

bool MessagePair::post() {
  request_.flags = (posted_ + 1) % traffic_.batch == 0 ? SendFlags(SendFlag::signaled) : SendFlags{};
  request_.remote_qpn = to_[next_]->qpn();
  if (!from_[next_]->post_send(request_)) return false;
  ++posted_;
  if (++next_ == from_.size()) next_ = 0;
  return true;
}

void LocalSink::send(std::span<const transport::TxFrame> frames) {
  receiver_->on_local_frames(frames, now_);
  sent_ = true;
}

bool MessagePair::exchange_locally() {
  local_rightward_.set_time(now_);
  left_.engine().poll(local_rightward_, now_);
  local_leftward_.set_time(now_);
  right_.engine().poll(local_leftward_, now_);
  now_ += 2 * kOneWay;
  const bool rightward = local_rightward_.take_sent();
  return local_leftward_.take_sent() || rightward;
}

bool MessagePair::exchange() {
  if (traffic_.local) return exchange_locally();
  left_.engine().poll(rightward_, now_);
  const auto requests = rightward_.take();
  now_ += kOneWay;
  right_.engine().on_frames(requests, now_);
  right_.engine().poll(leftward_, now_);
  const auto responses = leftward_.take();
  now_ += kOneWay;
  left_.engine().on_frames(responses, now_);
  return !requests.empty() || !responses.empty();
}

void MessagePair::take_completions() {
  while (const auto cqe = send_cq_->poll()) {
    require(cqe->status == 0, "a message failed");
    ++completed_;
  }
  while (const auto cqe = recv_cq_->poll()) {
    require(cqe->status == 0, "a receive failed");
    post_receive(static_cast<uint32_t>(cqe->wr_id));
  }
}

uint32_t MessagePair::round(uint64_t most) {
  uint32_t n = 0;
  while (n < traffic_.batch && n < most && post()) ++n;
  busy_ = exchange();
  take_completions();
  return n;
}

void MessagePair::run(uint64_t messages) {
  require(messages % traffic_.batch == 0, "the number of messages is not a multiple of the batch");
  const uint64_t end = posted_ + messages;
  int patience = kPatience;
  do {
    round(end - posted_);
  } while ((busy_ || posted_ < end || completed_ < end / traffic_.batch) && --patience > 0);
  require(patience > 0, "messages did not complete");
}

void MessagePair::poll_in_vain(uint64_t messages) {
  for (; messages > 0; --messages) {
    left_.engine().poll(rightward_, now_);
    right_.engine().poll(leftward_, now_);
    now_ += kEmptyPoll;
  }
}

bool MessagePair::settled() const {
  for (const test::TestQp* qp : from_) {
    if (traffic_.operation != Operation::ud_send && qp->status().recovery == Retransmission::automatic) return false;
  }
  return true;
}

}  // namespace uroce::bench
