// Sending and receiving a stream's bytes (rsend(), rrecv(), riowrite() and others).
#include <algorithm>
#include <cerrno>

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

int Stream::await_room(int flags) {
  if (phase_ != Phase::connected || !writable_) {
    return minus_one(phase_ == Phase::connected ? EPIPE : phase_ < Phase::connected ? ENOTCONN : ECONNRESET);
  }
  if (can_send()) return 0;
  if (wait(non_blocking(flags), &Stream::can_send_or_end) != 0) return -1;
  return writable_ ? 0 : minus_one(ECONNRESET);
}

/// `value` is sent in the message: the size of data, the index of a mapping.
int Stream::send_piece(IoCursor& from, std::size_t size, wire::Op op, uint32_t value, Peer::Place place) {
  Outgoing::Pieces pieces = outgoing_.put(from, size);
  const bool notifies = op != wire::Op::write;
  const int result = endpoint_.post(pieces.used(), notifies ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                                    wire::message(op, value), size <= sizes_.inline_bytes, place);
  if (result != 0) breaks(errno);
  return result;
}

int Stream::send_mappings(int flags) {
  return mappings_.send_unsent([&](uint32_t index, const wire::Mapping& mapping) {
    if (await_room(flags) != 0) return -1;
    wire::Mapping entry = peer_.as_read(mapping);
    const iovec bytes{&entry, sizeof(entry)};
    IoCursor from({&bytes, 1});
    peer_.use_credit();
    return send_piece(from, sizeof(entry), wire::Op::mapping, index, peer_.mapping_place(index));
  });
}

ssize_t Stream::send(IoCursor from, int flags, const sockaddr* to, socklen_t /*length*/) {
  if (to != nullptr) return minus_one(EISCONN);
  if (phase_ == Phase::connecting && wait_connected(non_blocking(flags)) != 0) return connecting_fault();
  const std::lock_guard lock(send_mutex_);
  const std::size_t total = from.left();
  if (mappings_.unsent() && send_mappings(flags) != 0) return -1;
  std::size_t step = kFirstPiece;
  int result = 0;
  while (from.left() > 0 && (result = await_room(flags)) == 0) {
    std::size_t size = std::min(step, from.left());
    step = std::min(step * 2, kLongestPiece);
    const wire::Target room = peer_.room();
    // A peer that withdraws its target makes this 0: send nothing and wait again.
    size = std::min<std::size_t>({size, outgoing_.free(), room.length});
    if (size == 0) continue;
    peer_.use_credit();
    const auto bytes = static_cast<uint32_t>(size);
    peer_.use_room(bytes);
    result = send_piece(from, size, wire::Op::data, bytes, {room.address, room.key});
    if (result != 0) break;
  }
  const std::size_t sent = total - from.left();
  return result != 0 && sent == 0 ? -1 : static_cast<ssize_t>(sent);
}

off_t Stream::map(void* buffer, std::size_t length, int protection, off_t offset) {
  return mappings_.map(id_->pd, buffer, length, protection, offset);
}

int Stream::unmap(void* buffer, std::size_t length) { return mappings_.unmap(buffer, length); }

std::size_t Stream::write_at(IoCursor from, off_t offset, int flags) {
  const std::lock_guard lock(send_mutex_);
  const std::size_t total = from.left();
  if (mappings_.unsent() && send_mappings(flags) != 0) return static_cast<std::size_t>(-1);
  std::size_t step = kFirstPiece;
  int result = 0;
  while (from.left() > 0) {
    const uint64_t at = static_cast<uint64_t>(offset) + (total - from.left());
    const auto there = peer_.find_mapping(at);
    if (!there) break;
    result = await_room(flags);
    if (result != 0) break;
    const uint64_t into = at - there->offset;
    const std::size_t size =
        std::min<std::size_t>({step, from.left(), outgoing_.free(), std::size_t{there->memory.length} - into});
    step = std::min(step * 2, kLongestPiece);
    const auto value = static_cast<uint32_t>(size);
    result = send_piece(from, size, wire::Op::write, value, {there->memory.address + into, there->memory.key});
    if (result != 0) break;
  }
  const std::size_t sent = total - from.left();
  return result != 0 && sent == 0 ? static_cast<std::size_t>(-1) : sent;
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
    if ((flags & MSG_PEEK) != 0) return static_cast<ssize_t>(incoming_.peek(to));
    incoming_.take(to);
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
      outgoing_.take_control();
      if (endpoint_.post({}, IBV_WR_RDMA_WRITE_WITH_IMM, wire::message(what), false, {}) != 0) breaks(errno);
    }
  }
  if (phase_ == Phase::connected) process(false, &Stream::all_sent_or_end);
  if (phase_ == Phase::disconnected) {
    const std::lock_guard lock(cq_mutex_);
    if (!endpoint_.open()) return 0;
    endpoint_.arm();
    endpoint_.flush();
  }
  return 0;
}

}  // namespace uroce::dropin::rsocket
