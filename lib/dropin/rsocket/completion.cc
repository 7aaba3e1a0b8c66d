// Completions of a stream's queue pair: received data, the peer's credits and control messages, and completed sends.
#include <poll.h>

#include <array>
#include <cerrno>
#include <utility>

#include "dropin/common/report.h"
#include "dropin/rsocket/stream.h"

namespace uroce::dropin::rsocket {

namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kSent = uint64_t{1} << 32;  ///< marks the wr_id of a send; the low bits are its message
/// Acknowledge events in batches of this size.
constexpr unsigned kAcknowledgeAt = 256;

}  // namespace

int Stream::wait(bool at_once, Test test) {
  const auto start = Clock::now();
  do {
    if (process(true, test) == 0) return 0;
    if (at_once || errno != EWOULDBLOCK) return -1;
  } while (Clock::now() - start < settings().polling_time);
  return process(false, test);
}

int Stream::process(bool at_once, Test test) {
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
    } else if (cq_ == nullptr) {
      result = minus_one(EBADF);  // closed by another thread
    } else if (!armed_) {
      armed_ = true;
      ibv_req_notify_cq(cq_, 0);
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

int Stream::wait_event() {
  const std::lock_guard lock(wait_mutex_);
  if (!armed_ || completions_ == nullptr) return 0;  // another thread took it
  pollfd waiting{completions_->fd, POLLIN, 0};
  const auto bound = static_cast<int>(settings().wake_up_interval.count());
  if (const int found = poll(&waiting, 1, bound); found <= 0) return found;
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  if (ibv_get_cq_event(completions_, &cq, &context) != 0) {
    if (errno == EAGAIN) return 0;
    breaks(errno);
    return -1;
  }
  armed_ = false;
  if (++unacknowledged_ == kAcknowledgeAt) ibv_ack_cq_events(cq_, std::exchange(unacknowledged_, 0));
  waiters.wake();  // other threads waited for the event that this one took
  return 0;
}

int Stream::drain() {
  if (cq_ == nullptr) return 0;
  std::array<ibv_wc, 16> done;
  uint32_t receives = 0;
  int count = 0;
  while ((count = ibv_poll_cq(cq_, static_cast<int>(done.size()), done.data())) > 0) {
    for (const ibv_wc& each : std::span(done).first(static_cast<std::size_t>(count))) {
      if (each.wr_id >= kSent) {
        on_sent(each);
      } else {
        on_received(each);
        ++receives;
      }
    }
  }
  if (count < 0) breaks(EIO);
  for (; receives > 0 && phase_ == Phase::connected; --receives) {
    if (post_receive() != 0) breaks(errno);
  }
  return count < 0 ? minus_one(EIO) : 0;
}

void Stream::on_received(const ibv_wc& done) {
  if (done.status != IBV_WC_SUCCESS) return breaks(ECONNRESET);
  if ((done.wc_flags & IBV_WC_WITH_IMM) == 0) return breaks(EPROTO);
  const uint32_t message = be32toh(done.imm_data);
  const uint32_t value = wire::value_of(message);
  switch (wire::op_of(message)) {
    case wire::Op::data:
      if (!incoming_.add(value)) breaks(EPROTO);
      return;
    case wire::Op::targets: peer_.set_limit(static_cast<uint16_t>(value)); return;
    case wire::Op::control: return on_control(value);
    default: return;  // a mapping was written, or a message of a later version
  }
}

void Stream::on_control(uint32_t what) {
  switch (static_cast<wire::Control>(what)) {
    case wire::Control::disconnect: return part(Phase::disconnected);
    case wire::Control::shutdown:
      if (!writable_) return part(Phase::disconnected);
      readable_ = false;
      return;
    default: return;
  }
}

void Stream::on_sent(const ibv_wc& done) {
  const auto message = static_cast<uint32_t>(done.wr_id);
  switch (wire::op_of(message)) {
    case wire::Op::targets: outgoing_.control_returned(); break;
    case wire::Op::control:
      outgoing_.control_returned();
      if (message == wire::message(wire::Control::disconnect)) part(Phase::disconnected);
      break;
    case wire::Op::mapping: outgoing_.returned(sizeof(wire::Mapping)); break;
    default: outgoing_.returned(wire::value_of(message)); break;
  }
  if (done.status != IBV_WC_SUCCESS) breaks(ECONNRESET);
}

void Stream::breaks(int reason) {
  if (phase_ != Phase::connected) return;
  error_ = reason;
  part(Phase::broken);
}

void Stream::part(Phase into) {
  Phase from = Phase::connected;
  if (!phase_.compare_exchange_strong(from, into)) return;
  readable_ = writable_ = false;
  waiters.wake();
}

bool Stream::owes_credits() const { return phase_ == Phase::connected && can_control() && incoming_.owes_peer(); }

void Stream::update_credits() {
  if (owes_credits()) send_credits();
}

void Stream::send_credits() {
  const uint32_t place = outgoing_.take_control();
  const uint32_t message = wire::message(wire::Op::targets, incoming_.grant());
  if (!incoming_.half_is_free()) {
    post({}, IBV_WR_RDMA_WRITE_WITH_IMM, message, false, {});
    return;
  }
  ibv_sge piece = outgoing_.put_entry(place, peer_.as_read(incoming_.half()));
  post({&piece, 1}, IBV_WR_RDMA_WRITE_WITH_IMM, message, piece.length <= sizes_.inline_bytes, peer_.target_place());
  incoming_.half_given();
  peer_.target_written();
}

int Stream::post(std::span<ibv_sge> pieces, ibv_wr_opcode opcode, uint32_t message, bool as_inline, Peer::Place place) {
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

}  // namespace uroce::dropin::rsocket
