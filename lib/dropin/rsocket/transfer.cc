// Sending and receiving a stream's bytes (rsend(), rrecv(), riowrite() and others).
#include <poll.h>

#include <algorithm>
#include <cerrno>

#include "dropin/common/report.h"
#include "dropin/rsocket/connection.h"

namespace uroce::dropin::rsocket {

namespace {

// The first pieces of a long message are short, so that the peer can process them while the next ones are copied.
constexpr std::size_t kFirstPiece = 2048;
constexpr std::size_t kLongestPiece = 65536;

}  // namespace

int Connection::await_room(int flags) {
  if (!state_.connected() || !state_.writable()) {
    return minus_one(state_.connected() ? EPIPE : state_.phase() < Phase::connected ? ENOTCONN : ECONNRESET);
  }
  if (can_send()) return 0;
  if (wait(socket_.non_blocking(flags), &Connection::can_send_or_end) != 0) return -1;
  return state_.writable() ? 0 : minus_one(ECONNRESET);
}

/// `value` is sent in the message: the size of data, the index of a mapping.
int Connection::send_piece(IoCursor& from, std::size_t size, wire::Op op, uint32_t value, Peer::Place place) {
  Outgoing::Pieces pieces = outgoing_.put(from, size);
  const bool notifies = op != wire::Op::write;
  const int result = endpoint_.post(pieces.used(), notifies ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
                                    wire::message(op, value), size <= inline_bytes_, place);
  if (result != 0) state_.breaks(errno);
  return result;
}

int Connection::send_mappings(int flags) {
  return mappings_.send_unsent([&](uint32_t index, const wire::Mapping& mapping) {
    if (await_room(flags) != 0) return -1;
    wire::Mapping entry = peer_.as_read(mapping);
    const iovec bytes{&entry, sizeof(entry)};
    IoCursor from({&bytes, 1});
    peer_.use_credit();
    return send_piece(from, sizeof(entry), wire::Op::mapping, index, peer_.mapping_place(index));
  });
}

std::size_t Connection::send(IoCursor& from, int flags) {
  const std::lock_guard lock(send_mutex_);
  const std::size_t total = from.left();
  if (mappings_.unsent() && send_mappings(flags) != 0) return static_cast<std::size_t>(-1);
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
  return result != 0 && sent == 0 ? static_cast<std::size_t>(-1) : sent;
}

std::size_t Connection::write_at(IoCursor& from, off_t offset, int flags) {
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

ssize_t Connection::receive(IoCursor& to, int flags) {
  const std::lock_guard lock(receive_mutex_);
  const std::size_t total = to.left();
  if (total == 0) return 0;
  int result = 0;
  do {
    if (!has_data()) result = wait(socket_.non_blocking(flags), &Connection::has_data_or_end);
    if (result != 0) break;
    if ((flags & MSG_PEEK) != 0) return static_cast<ssize_t>(incoming_.peek(to));
    incoming_.take(to);
  } while (to.left() > 0 && (flags & MSG_WAITALL) != 0 && (has_data() || state_.readable()));
  // The peer may be waiting for the freed room.
  if (owes_credits()) {
    const int reason = errno;
    process(true, &Connection::at_all);
    errno = reason;
  }
  const std::size_t received = total - to.left();
  if (received == 0 && result == 0 && state_.phase() == Phase::broken) {
    if (const int reason = state_.take_error(); reason != 0) return minus_one(reason);
  }
  if (received == 0 && result != 0) return -1;
  return static_cast<ssize_t>(received);
}

int Connection::shutdown(int how) {
  if (state_.connected()) {
    wire::Control what = wire::Control::disconnect;
    if (how == SHUT_RD) {
      state_.end_reading();
      if (state_.writable()) return 0;
    } else if (how == SHUT_WR) {
      state_.end_writing();
      if (state_.readable()) what = wire::Control::shutdown;
    } else {
      state_.end_reading();
      state_.end_writing();
    }
    if (!can_control() && process(false, &Connection::can_control_or_end) != 0) return -1;
    if (state_.connected()) {
      const std::lock_guard lock(cq_mutex_);
      outgoing_.take_control();
      if (endpoint_.post({}, IBV_WR_RDMA_WRITE_WITH_IMM, wire::message(what), false, {}) != 0) state_.breaks(errno);
    }
  }
  if (state_.connected()) process(false, &Connection::all_sent_or_end);
  if (state_.phase() == Phase::disconnected) {
    const std::lock_guard lock(cq_mutex_);
    if (!endpoint_.open()) return 0;
    endpoint_.arm();
    endpoint_.flush();
  }
  return 0;
}

short Connection::readiness(short events) const {
  int now = 0;
  if (has_data_or_end()) now |= POLLIN;
  if (state_.writable() && can_send()) now |= POLLOUT;
  now &= events;
  // Report readable data before POLLHUP: programs treat the hang-up as a failure and would lose the peer's last bytes.
  const bool unread = (now & POLLIN) != 0 && has_data();
  if (state_.phase() == Phase::disconnected && !unread) now |= POLLHUP;
  if (state_.phase() == Phase::broken) now |= POLLERR;
  return static_cast<short>(now);
}

}  // namespace uroce::dropin::rsocket
