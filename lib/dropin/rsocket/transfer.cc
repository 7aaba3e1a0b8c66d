// Sending and receiving a stream's bytes (rsend(), rrecv() and others).
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dropin/common/report.h"
#include "dropin/rsocket/stream.h"

namespace uroce::dropin::rsocket {

namespace {

// The first pieces of a long message are short, so that the peer can process them while the next ones are copied.
constexpr std::size_t kFirstPiece = 2048;
constexpr std::size_t kLongestPiece = 65536;

/// While connecting, connect() fails with EINPROGRESS; a send or receive fails with EWOULDBLOCK.
int connecting_fault() { return minus_one(errno == EINPROGRESS ? EAGAIN : errno); }

}  // namespace

wire::Target Stream::next_target() const {
  const volatile wire::Target& from = targets()[target_];
  return {from.address, from.key, from.length};
}

void Stream::consume_target(uint32_t bytes) {
  volatile wire::Target& from = targets()[target_];
  from.address = from.address + bytes;
  from.length = from.length - bytes;
  if (from.length == 0) target_ = (target_ + 1) % wire::kTargets;
}

int Stream::await_room(int flags) {
  if (phase_ != Phase::connected || !writable_) {
    return minus_one(phase_ == Phase::connected ? EPIPE : phase_ < Phase::connected ? ENOTCONN : ECONNRESET);
  }
  if (can_send()) return 0;
  if (wait(non_blocking(flags), &Stream::can_send_or_end) != 0) return -1;
  return writable_ ? 0 : minus_one(ECONNRESET);
}

/// `value` is sent in the message: the size of data, the index of a mapping.
int Stream::send_piece(IoCursor& from, std::size_t size, wire::Op op, uint32_t value, uint64_t address, uint32_t rkey) {
  const std::size_t to_end = std::min<std::size_t>(size, sizes_.send_bytes - out_at_);
  from.get(out_.data() + out_at_, to_end);
  from.get(out_.data(), size - to_end);
  ibv_sge pieces[2] = {{out_.address() + out_at_, static_cast<uint32_t>(to_end), out_.lkey()},
                       {out_.address(), static_cast<uint32_t>(size - to_end), out_.lkey()}};
  out_at_ = static_cast<uint32_t>((out_at_ + size) % sizes_.send_bytes);
  out_free_ -= static_cast<uint32_t>(size);
  --requests_free_;
  const bool notifies = op != wire::Op::write;
  const int result = post({pieces, size > to_end ? 2u : 1u}, notifies ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                          wire::message(op, value), size <= sizes_.inline_bytes, address, rkey);
  if (result != 0) breaks(errno);
  return result;
}

ssize_t Stream::send(IoCursor from, int flags, const sockaddr* to, socklen_t /*length*/) {
  if (to != nullptr) return minus_one(EISCONN);
  if (phase_ == Phase::connecting && wait_connected(non_blocking(flags)) != 0) return connecting_fault();
  const std::lock_guard lock(send_mutex_);
  const std::size_t total = from.left();
  if (unsent_mappings_ && send_mappings(flags) != 0) return -1;
  std::size_t step = kFirstPiece;
  int result = 0;
  while (from.left() > 0 && (result = await_room(flags)) == 0) {
    std::size_t size = std::min(step, from.left());
    step = std::min(step * 2, kLongestPiece);
    const wire::Target target = next_target();
    // A peer that withdraws its target makes this 0: send nothing and wait again.
    size = std::min<std::size_t>({size, out_free_.load(), target.length});
    if (size == 0) continue;
    ++sent_;
    const auto bytes = static_cast<uint32_t>(size);
    consume_target(bytes);
    result = send_piece(from, size, wire::Op::data, bytes, target.address, target.key);
    if (result != 0) break;
  }
  const std::size_t sent = total - from.left();
  return result != 0 && sent == 0 ? -1 : static_cast<ssize_t>(sent);
}

std::size_t Stream::peek(IoCursor to) const {
  const std::size_t total = to.left();
  const std::size_t size = std::min<std::size_t>(total, unread_);
  const std::size_t to_end = std::min<std::size_t>(size, sizes_.receive_bytes - in_at_);
  to.put(in_.data() + in_at_, to_end);
  to.put(in_.data(), size - to_end);
  return total - to.left();
}

void Stream::take_data(IoCursor& to) {
  while (to.left() > 0 && has_data()) {
    uint32_t& message = data_[data_head_];
    const std::size_t size = std::min<std::size_t>({message, to.left(), std::size_t{sizes_.receive_bytes} - in_at_});
    to.put(in_.data() + in_at_, size);
    const auto bytes = static_cast<uint32_t>(size);
    in_at_ = (in_at_ + bytes) % sizes_.receive_bytes;
    message -= bytes;
    unread_ -= bytes;
    in_freed_ += bytes;
    if (message != 0) continue;
    data_head_ = data_head_ + 1 == data_.size() ? 0 : data_head_ + 1;
    ++received_;
  }
}

ssize_t Stream::receive(IoCursor to, int flags, sockaddr* from, socklen_t* length) {
  if (phase_ == Phase::connecting && wait_connected(non_blocking(flags)) != 0) return connecting_fault();
  if (phase_ < Phase::connected) return minus_one(ENOTCONN);
  const std::lock_guard lock(receive_mutex_);
  const std::size_t total = to.left();
  if (total == 0) return 0;
  int result = 0;
  do {
    if (!has_data()) result = wait(non_blocking(flags), &Stream::has_data_or_end);
    if (result != 0) break;
    if ((flags & MSG_PEEK) != 0) return static_cast<ssize_t>(peek(to));
    take_data(to);
  } while (to.left() > 0 && (flags & MSG_WAITALL) != 0 && (has_data() || readable_));
  // The peer may be waiting for the freed room.
  if (const int reason = errno; owes_credits()) {
    process(true, &Stream::at_all);
    errno = reason;
  }
  const std::size_t received = total - to.left();
  if (received == 0 && result == 0 && phase_ == Phase::broken) {
    if (const int reason = error_.exchange(0); reason != 0) return minus_one(reason);
  }
  if (received == 0 && result != 0) return -1;
  if (from != nullptr) peer_name(from, length);
  return static_cast<ssize_t>(received);
}

int Stream::shutdown(int how) {
  if (phase_ == Phase::connecting || phase_ < Phase::connected) return minus_one(ENOTCONN);
  set_keepalive(false);
  if (phase_ == Phase::connected) {
    wire::Control what = wire::Control::disconnect;
    if (how == SHUT_RD) {
      readable_ = false;
      if (writable_) return 0;
    } else if (how == SHUT_WR) {
      writable_ = false;
      if (readable_) what = wire::Control::shutdown;
    } else {
      readable_ = writable_ = false;
    }
    if (!can_control() && process(false, &Stream::can_control_or_end) != 0) return -1;
    if (phase_ == Phase::connected) {
      const std::lock_guard lock(cq_mutex_);
      ++control_sent_;
      if (post({}, IBV_WR_RDMA_WRITE_WITH_IMM, wire::message(what), false, 0, 0) != 0) breaks(errno);
    }
  }
  if (phase_ == Phase::connected) process(false, &Stream::all_sent_or_end);
  if (phase_ == Phase::disconnected) {
    // Flush the posted requests: their completions wake sleeping threads.
    const std::lock_guard lock(cq_mutex_);
    if (cq_ == nullptr) return 0;
    ibv_req_notify_cq(cq_, 0);
    armed_ = true;
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    ibv_modify_qp(id_->qp, &attr, IBV_QP_STATE);
  }
  return 0;
}

}  // namespace uroce::dropin::rsocket
