// Completions of a stream's queue pair: received data, the peer's credits and control messages, and completed sends.
#include <array>
#include <cerrno>
#include <chrono>

#include "dropin/common/report.h"
#include "dropin/rsocket/connection.h"

namespace uroce::dropin::rsocket {

namespace {

using Clock = std::chrono::steady_clock;

}  // namespace

int Connection::wait(bool at_once, Test test) {
  const auto start = Clock::now();
  do {
    if (process(true, test) == 0) return 0;
    if (at_once || errno != EWOULDBLOCK) return -1;
  } while (Clock::now() - start < settings().polling_time);
  return process(false, test);
}

int Connection::process(bool at_once, Test test) {
  std::unique_lock lock(cq_mutex_);
  int result = 0;
  do {
    update_credits();
    result = drain();
    if ((this->*test)()) {
      result = 0;
      break;
    }
    if (result != 0) break;
    if (at_once) {
      result = minus_one(EWOULDBLOCK);
    } else if (!endpoint_.open()) {
      result = minus_one(EBADF);  // closed by another thread
    } else if (!endpoint_.armed()) {
      endpoint_.arm();
    } else {
      update_credits();
      lock.unlock();
      result = wait_event();
      lock.lock();
    }
  } while (result == 0);
  const int reason = errno;
  update_credits();
  errno = reason;
  return result;
}

int Connection::wait_event() {
  switch (endpoint_.wait()) {
    case Endpoint::Wait::nothing: return 0;
    // Other threads waited for the event that this one took.
    case Endpoint::Wait::taken: socket_.waiters.wake(); return 0;
    case Endpoint::Wait::interrupted: return -1;
    case Endpoint::Wait::failed: state_.breaks(errno); return -1;
  }
  return 0;
}

int Connection::drain() {
  if (!endpoint_.open()) return 0;
  std::array<ibv_wc, 16> done;
  uint32_t receives = 0;
  int count = 0;
  while ((count = endpoint_.poll(done)) > 0) {
    for (const ibv_wc& each : std::span(done).first(static_cast<std::size_t>(count))) {
      if (Endpoint::is_send(each)) {
        on_sent(each);
      } else {
        on_received(each);
        ++receives;
      }
    }
  }
  if (count < 0) state_.breaks(EIO);
  for (; receives > 0 && state_.connected(); --receives) {
    if (endpoint_.post_receive() != 0) state_.breaks(errno);
  }
  return count < 0 ? minus_one(EIO) : 0;
}

void Connection::on_received(const ibv_wc& done) {
  if (done.status != IBV_WC_SUCCESS) return state_.breaks(ECONNRESET);
  if ((done.wc_flags & IBV_WC_WITH_IMM) == 0) return state_.breaks(EPROTO);
  const uint32_t message = be32toh(done.imm_data);
  const uint32_t value = wire::value_of(message);
  switch (wire::op_of(message)) {
    case wire::Op::data:
      if (!incoming_.add(value)) state_.breaks(EPROTO);
      return;
    case wire::Op::targets: peer_.set_limit(static_cast<uint16_t>(value)); return;
    case wire::Op::control: return on_control(value);
    default: return;  // a mapping was written, or a message of a later version
  }
}

void Connection::on_control(uint32_t what) {
  switch (static_cast<wire::Control>(what)) {
    case wire::Control::disconnect: return state_.part(Phase::disconnected);
    case wire::Control::shutdown:
      if (!state_.writable()) return state_.part(Phase::disconnected);
      state_.end_reading();
      return;
    default: return;
  }
}

void Connection::on_sent(const ibv_wc& done) {
  const uint32_t message = Endpoint::message_of(done);
  switch (wire::op_of(message)) {
    case wire::Op::targets: outgoing_.control_returned(); break;
    case wire::Op::control:
      outgoing_.control_returned();
      if (message == wire::message(wire::Control::disconnect)) state_.part(Phase::disconnected);
      break;
    case wire::Op::mapping: outgoing_.returned(sizeof(wire::Mapping)); break;
    default: outgoing_.returned(wire::value_of(message)); break;
  }
  if (done.status != IBV_WC_SUCCESS) state_.breaks(ECONNRESET);
}

bool Connection::owes_credits() const { return state_.connected() && can_control() && incoming_.owes_peer(); }

void Connection::update_credits() {
  if (owes_credits()) send_credits();
}

void Connection::send_credits() {
  const uint32_t place = outgoing_.take_control();
  const uint32_t message = wire::message(wire::Op::targets, incoming_.grant());
  if (!incoming_.half_is_free()) {
    endpoint_.post({}, IBV_WR_RDMA_WRITE_WITH_IMM, message, false, {});
    return;
  }
  ibv_sge piece = outgoing_.put_entry(place, peer_.as_read(incoming_.half()));
  endpoint_.post({&piece, 1}, IBV_WR_RDMA_WRITE_WITH_IMM, message, piece.length <= inline_bytes_, peer_.target_place());
  incoming_.half_given();
  peer_.target_written();
}

}  // namespace uroce::dropin::rsocket
